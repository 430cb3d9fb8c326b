package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// A cluster is the API server as the account of this pod sees it.
type cluster struct {
	url, namespace string
	client         *http.Client
}

// account is where Kubernetes puts what a pod needs to speak to it.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func inCluster() (*cluster, error) {
	authority, err := os.ReadFile(account + "ca.crt")
	namespace, missing := os.ReadFile(account + "namespace")
	if err := errors.Join(err, missing); err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt of the account holds no certificate")
	}
	return &cluster{
		url: "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + cmp.Or(os.Getenv("KUBERNETES_SERVICE_PORT"), "443"), namespace: string(namespace),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
	}, nil
}

// call sends in, unless it is nil, and reads the answer into out.
func (c *cluster) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, body)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(account + "token") // which is renewed from time to time
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+string(token))
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

// A pod is one that runs.
type pod struct{ name, role, ip string }

// pods returns those with the labels that run, in the order of their names.
func (c *cluster) pods(ctx context.Context, selector string) (list []pod, err error) {
	var found struct {
		Items []struct {
			Metadata struct {
				Name              string
				Labels            map[string]string
				DeletionTimestamp string
			}
			Status struct{ Phase, PodIP string }
		}
	}
	if err := c.call(ctx, http.MethodGet, "/api/v1/namespaces/"+c.namespace+"/pods?labelSelector="+url.QueryEscape(selector), nil, &found); err != nil {
		return nil, err
	}
	for _, p := range found.Items {
		if p.Status.Phase == "Running" && p.Status.PodIP != "" && p.Metadata.DeletionTimestamp == "" {
			list = append(list, pod{p.Metadata.Name, p.Metadata.Labels["llm-d.ai/role"], p.Status.PodIP})
		}
	}
	return list, nil
}

// review is of the kinds TokenReview and SubjectAccessReview.
type review struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       map[string]any `json:"spec"`
	Status     struct {
		Authenticated, Allowed bool
		User                   struct {
			Username string
			Groups   []string
		}
	} `json:"status,omitzero"`
}

// mayRead returns the status for who shows a header Authorization at /metrics: 200, or 401 if
// the cluster does not know the token, 403 if it may not get /metrics, and 500 if this
// account may not ask that.
func (c *cluster) mayRead(ctx context.Context, authorization string) int {
	token, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok {
		return http.StatusUnauthorized
	}
	who := review{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview", Spec: map[string]any{"token": token}}
	if err := c.call(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", who, &who); err != nil {
		fmt.Fprintln(os.Stderr, "picker:", err)
		return http.StatusInternalServerError
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized
	}
	may := review{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview", Spec: map[string]any{
		"user": who.Status.User.Username, "groups": who.Status.User.Groups,
		"nonResourceAttributes": map[string]string{"path": "/metrics", "verb": "get"},
	}}
	if err := c.call(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", may, &may); err != nil {
		fmt.Fprintln(os.Stderr, "picker:", err)
		return http.StatusInternalServerError
	}
	if !may.Status.Allowed {
		return http.StatusForbidden
	}
	return http.StatusOK
}
