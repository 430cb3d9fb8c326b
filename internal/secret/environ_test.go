package secret_test

import (
	"strings"
	"testing"

	"sweep.dev/sweep/internal/secret"
)

func TestNamed(t *testing.T) {
	for name, want := range map[string]bool{
		"HF_TOKEN": true, "RUNPOD_API_KEY": true, "SWEEP_API_KEY": true, "SWEEP_DB_PASSWORD": true, "SWEEP_SECRET": true,
		"AWS_SECRET_ACCESS_KEY": true, "AWS_ACCESS_KEY_ID": true, "GOOGLE_APPLICATION_CREDENTIALS": true, "OPENAI_APIKEY": true,
		"aws_secret_access_key": true, "Hf_Token": true, "runpod-api-key": true, "NVIDIA_API_KEY": true, "GITHUB_PAT": true,
		"DB_PASSWD": true, "SSH_PASSPHRASE": true, "API_KEYS": true, "BASIC_AUTH": true,
		"SWEEP_MODEL": false, "SWEEP_TOKENIZER": false, "SWEEP_MAX_TOKENS": false, "SWEEP_KEYBOARD": false, "TOKENIZERS_PARALLELISM": false,
		"PATH": false, "CUDA_VISIBLE_DEVICES": false, "HTTP_PROXY": false, "AUTHOR": false, "": false,
	} {
		if got := secret.Named(name); got != want {
			t.Errorf("Named(%q) = %v", name, got)
		}
	}
}

func TestFromEnviron(t *testing.T) {
	mask := secret.NewMask(secret.FromEnviron([]string{
		"aws_secret_access_key=canary-of-aws", "HOME=/home/somebody", "broken", "EMPTY_KEY=", "SHORT_KEY=abc",
		"https_proxy=http://user:canary%2Fof%2Fproxy@proxy:3128",
		"DEPLOY_KEY=-----BEGIN OPENSSH PRIVATE KEY-----\ncanaryline1aaaaaaaa\ncanaryline2bbbbbbbb\n-----END OPENSSH PRIVATE KEY-----\n",
	}))
	in := "canary-of-aws /home/somebody canary/of/proxy canary%2Fof%2Fproxy abc\n" +
		"canaryline1aaaaaaaa\nx canaryline2bbbbbbbb y\nhttp://user:canary%2Fof%2Fproxy@proxy:3128"
	got := mask.Text(in)
	if strings.Contains(got, "canary") {
		t.Errorf("a credential is shown: %q", got)
	}
	for _, want := range []string{"${aws_secret_access_key}", "/home/somebody", "abc", "http://user:${https_proxy}@proxy:3128", "x ${DEPLOY_KEY} y"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
