"""`python -m kubeskew` is `kubeskew`."""

from kubeskew.cli.main import main

if __name__ == "__main__":
    main()
