"""The deployment controller: rolls replica sets over from one pod template to the next."""
