package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/plaintext"
)

func kubeContextFlag() cli.Flag {
	return &cli.StringFlag{Name: "kube-context", Usage: "use this `CONTEXT` of the kubeconfig; default: the current one"}
}

// kubeAPI returns the cluster of --kube-context.
func (a *app) kubeAPI(c *cli.Command) (*kubeapi.Client, error) {
	files, _ := a.env("KUBECONFIG")
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: files, Context: c.String("kube-context")})
	if err != nil {
		return nil, &usage{err}
	}
	return api, nil
}

// kubeName returns what --kube says: a namespace, and the name of a stack or "".
func kubeName(c *cli.Command) (namespace, name string, err error) {
	if c.Args().Present() {
		return "", "", &usage{fmt.Errorf("--kube asks the cluster alone: leave out %q", c.Args().First())}
	}
	if namespace, name, _ = strings.Cut(c.String("kube"), "/"); namespace == "" {
		return "", "", &usage{errors.New("--kube: want NAMESPACE or NAMESPACE/NAME")}
	}
	return namespace, name, nil
}

// kubeStack finds the stack of --kube.
func (a *app) kubeStack(ctx context.Context, c *cli.Command) (*kubeapi.Client, *stack.Stack, error) {
	namespace, name, err := kubeName(c)
	if err != nil {
		return nil, nil, err
	}
	api, err := a.kubeAPI(c)
	if err != nil {
		return nil, nil, err
	}
	s, err := stack.Discover(ctx, api, namespace, name)
	return api, s, refusedByKube(err, "probe", namespace)
}

// refusedByKube returns an error with what to do if the user lacks a right that a command needs.
func refusedByKube(err error, command, namespace string) error {
	if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
		return &statusError{exitProvider, &hinted{err, "ask for the Role that sweep " + command + " --kube " + plaintext.Word(namespace) + " --print-role prints"}}
	}
	return err
}
