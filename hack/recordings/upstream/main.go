// Upstream's generic API server with custom resource definitions and nothing else, to record what it answers.
//
// Everybody is an administrator, there is no admission, no core kind and no controller but those of definitions.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/server"
	enabled "k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
)

type noServices struct{}

func (noServices) ResolveEndpoint(_, name string, _ int32) (*url.URL, error) {
	return nil, fmt.Errorf("service %q not found", name)
}

func administrator(*http.Request) (*authenticator.Response, bool, error) {
	groups := []string{user.SystemPrivilegedGroup, user.AllAuthenticated}
	return &authenticator.Response{User: &user.DefaultInfo{Name: "admin", Groups: groups}}, true, nil
}

func run(arguments []string) error {
	o := options.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	secure, etcd := o.RecommendedOptions.SecureServing, o.RecommendedOptions.Etcd
	flags := pflag.NewFlagSet("upstream", pflag.ExitOnError)
	o.ServerRunOptions.AddUniversalFlags(flags)
	etcd.AddFlags(flags)
	secure.AddFlags(flags)
	o.APIEnablement.AddFlags(flags)
	generic := server.NewRecommendedConfig(apiserver.Codecs)
	steps := []func() error{
		func() error { return flags.Parse(arguments) },
		o.ServerRunOptions.ComponentGlobalsRegistry.Set,
		o.Complete,
		func() error {
			return secure.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)})
		},
		func() error { return o.ServerRunOptions.ApplyTo(&generic.Config) },
		func() error { return etcd.ApplyTo(&generic.Config) },
		func() error { return secure.ApplyTo(&generic.SecureServing, &generic.LoopbackClientConfig) },
		func() error {
			return o.APIEnablement.ApplyTo(&generic.Config, apiserver.DefaultAPIResourceConfigSource(), apiserver.Scheme)
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	generic.Authentication.Authenticator = authenticator.RequestFunc(administrator)
	generic.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	generic.SharedInformerFactory = informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	definitions := enabled.GetOpenAPIDefinitionsWithoutDisabledFeatures(generated.GetOpenAPIDefinitions)
	namer := openapi.NewDefinitionNamer(apiserver.Scheme, scheme.Scheme)
	generic.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	generic.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
	config := apiserver.Config{GenericConfig: generic, ExtraConfig: apiserver.ExtraConfig{
		CRDRESTOptionsGetter: options.NewCRDRESTOptionsGetter(
			*etcd, generic.ResourceTransformers, generic.StorageObjectCountTracker),
		ServiceResolver: noServices{},
		AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(
			nil, nil, generic.LoopbackClientConfig, noop.NewTracerProvider()),
	}}
	made, err := config.Complete().New(server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	return made.GenericAPIServer.PrepareRun().RunWithContext(server.SetupSignalContext())
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
