package ssh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	gossh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/netguard"
	"sweep.dev/sweep/internal/plaintext"
)

// dial makes one connection, within Config.ConnectTimeout. Whom we will not talk
// to and who will not talk to us are a [backends.ErrRefused].
func (b *Backend) dial(ctx context.Context) (client *gossh.Client, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.c.ConnectTimeout,
		fmt.Errorf("connect_timeout: no login within %v", b.c.ConnectTimeout))
	defer cancel()
	err = b.fx.Call(ctx, effect.SSHDial, func(ctx context.Context) error {
		client, err = b.login(ctx)
		return err
	})
	if err != nil && client != nil { // a fault: it was made all the same
		_ = client.Close()
		client = nil
	}
	if err != nil {
		return nil, fmt.Errorf("ssh %s@%s: %w", b.c.User, b.address(), err)
	}
	return client, nil
}

func (b *Backend) login(ctx context.Context) (*gossh.Client, error) {
	known, err := b.knownHost()
	if err != nil {
		return nil, err
	}
	signers, done, err := b.signers(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := netguard.Dial(ctx, "tcp", b.address())
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	// The handshake knows no context.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var stranger error
	config := &gossh.ClientConfig{
		User: b.c.User,
		Auth: []gossh.AuthMethod{gossh.PublicKeys(signers...)},
		HostKeyCallback: func(name string, remote net.Addr, key gossh.PublicKey) error {
			stranger = known.check(name, remote, key)
			return stranger
		},
		HostKeyAlgorithms: known.algorithms,
		ClientVersion:     "SSH-2.0-sweep",
	}
	c, channels, requests, err := gossh.NewClientConn(conn, b.address(), config)
	if !stop() && err == nil {
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	switch {
	case err == nil:
		return gossh.NewClient(c, channels, requests), nil
	case stranger != nil:
		err = stranger
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case strings.Contains(err.Error(), "unable to authenticate"): // the library has no type for it
		err = fmt.Errorf("%w: the host accepts none of the %d keys of %s", backends.ErrRefused, len(signers), b.keySource())
	}
	_ = conn.Close()
	return nil, err
}

// causeOf returns the context's cause if it has one.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A knownHost says who the host has to be.
type knownHost struct {
	b          *Backend
	callback   gossh.HostKeyCallback
	algorithms []string // that the known keys are of: a host with several shows one of these
}

func (b *Backend) knownHost() (*knownHost, error) {
	k := &knownHost{b: b}
	// knownhosts opens the file itself, and would wait for the writer of a pipe.
	var callback gossh.HostKeyCallback
	f, err := input.Open(b.c.KnownHosts, maxKnownHosts)
	if err == nil {
		_ = f.Close()
		callback, err = knownhosts.New(b.c.KnownHosts)
	}
	if errors.Is(err, input.ErrEmpty) || b.c.KnownHosts == os.DevNull {
		err = fs.ErrNotExist // it knows as many hosts as one that is not there
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		k.callback = func(string, net.Addr, gossh.PublicKey) error { return &knownhosts.KeyError{} }
		return k, nil
	case err != nil:
		return nil, fmt.Errorf("%w: known_hosts: %w", backends.ErrRefused, err)
	}
	k.callback = callback
	// The error for a key that no host has lists the known ones. Without them a
	// host that shows its RSA key first would be taken for another one if only
	// its Ed25519 key is known.
	nobody, err := gossh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil, err
	}
	if unknown, ok := errors.AsType[*knownhosts.KeyError](callback(b.address(), &net.TCPAddr{IP: net.IPv4zero}, nobody)); ok {
		for _, w := range unknown.Want {
			switch t := w.Key.Type(); t {
			case gossh.KeyAlgoRSA:
				k.algorithms = append(k.algorithms, gossh.KeyAlgoRSASHA512, gossh.KeyAlgoRSASHA256)
			default:
				k.algorithms = append(k.algorithms, t)
			}
		}
	}
	slices.Sort(k.algorithms)
	k.algorithms = slices.Compact(k.algorithms)
	return k, nil
}

func (k *knownHost) check(name string, remote net.Addr, key gossh.PublicKey) error {
	err := k.callback(name, remote, key)
	if err == nil {
		return nil
	}
	c := k.b.c
	print := gossh.FingerprintSHA256(key)
	var unknown *knownhosts.KeyError
	switch {
	case !errors.As(err, &unknown):
		return fmt.Errorf("%w: its key %s is not to be trusted: %w", backends.ErrRefused, print, err)
	case len(unknown.Want) == 0:
		return fmt.Errorf("%w: the host is not in %s; it shows %s. If that is its key, then\n  %s\nor log in once with\n  %s",
			backends.ErrRefused, c.KnownHosts, print,
			command("ssh-keyscan", "-p", strconv.Itoa(c.Port), c.Host)+" >> "+plaintext.Word(c.KnownHosts),
			command("ssh", "-p", strconv.Itoa(c.Port), "-o", c.knownHostsOption(), c.User+"@"+c.Host, "true"))
	default:
		var at []string
		for _, w := range unknown.Want {
			at = append(at, fmt.Sprintf("%s:%d", w.Filename, w.Line))
		}
		return fmt.Errorf("%w: THE HOST'S KEY HAS CHANGED: it shows %s, which is not the one in %s. The connection may be intercepted. Only if you know why the key changed, remove the old key with\n  %s",
			backends.ErrRefused, print, strings.Join(at, ", "), command("ssh-keygen", "-R", knownhosts.Normalize(k.b.address()), "-f", c.KnownHosts))
	}
}

// command returns a command line for a person to paste.
func command(list ...string) string {
	quoted := make([]string, len(list))
	for i, word := range list {
		quoted[i] = plaintext.Word(word)
	}
	return strings.Join(quoted, " ")
}

// knownHostsOption returns the option of ssh that names the file of known hosts. ssh
// takes several files there, so it splits at spaces that are not quoted.
func (c Config) knownHostsOption() string {
	path := c.KnownHosts
	if strings.ContainsAny(path, " \t") {
		path = `"` + path + `"`
	}
	return "UserKnownHostsFile=" + path
}

// keySource returns where our keys come from, for people.
func (b *Backend) keySource() string {
	switch {
	case b.c.Key != "":
		return b.c.Key
	case os.Getenv(agentVar) != "":
		return "the SSH agent"
	default:
		return "~/.ssh"
	}
}

const agentVar = "SSH_AUTH_SOCK"

// signers returns our keys. done must be called when they are needed no more.
func (b *Backend) signers(ctx context.Context) (_ []gossh.Signer, done func(), err error) {
	none := func() {}
	if b.c.Key != "" {
		s, err := b.keyFile(b.c.Key)
		if err != nil {
			return nil, none, fmt.Errorf("%w: key: %w", backends.ErrRefused, err)
		}
		return []gossh.Signer{s}, none, nil
	}
	if socket := os.Getenv(agentVar); socket != "" {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, none, fmt.Errorf("%w: SSH agent: %w", backends.ErrRefused, err)
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		done := func() { stop(); conn.Close() }
		signers, err := agent.NewClient(conn).Signers()
		if err == nil && len(signers) == 0 {
			err = errors.New("it holds no key; add one with ssh-add")
		}
		if err != nil {
			done()
			return nil, none, fmt.Errorf("%w: SSH agent: %w", backends.ErrRefused, err)
		}
		return signers, done, nil
	}
	var signers []gossh.Signer
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		path, err := expand(filepath.Join("~/.ssh", name))
		if err != nil {
			return nil, none, err
		}
		switch s, err := b.keyFile(path); {
		case err == nil:
			signers = append(signers, s)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, none, fmt.Errorf("%w: key: %w", backends.ErrRefused, err)
		}
	}
	if len(signers) == 0 {
		return nil, none, fmt.Errorf("%w: no SSH agent and no key in ~/.ssh: name the key's file in backend.key", backends.ErrRefused)
	}
	return signers, none, nil
}

// Bounds of the files that a plan names, in bytes.
const (
	maxKey        = 64 << 10
	maxKnownHosts = 16 << 20
)

func (b *Backend) keyFile(path string) (gossh.Signer, error) {
	pem, err := input.ReadFile(path, maxKey)
	if err != nil {
		return nil, err
	}
	defer clear(pem)
	s, err := gossh.ParsePrivateKey(pem)
	if _, locked := errors.AsType[*gossh.PassphraseMissingError](err); locked {
		if b.c.Passphrase.IsZero() {
			return nil, fmt.Errorf("%s has a passphrase: add the key to an SSH agent, or set backend.passphrase", path)
		}
		s, err = gossh.ParsePrivateKeyWithPassphrase(pem, bytes.Clone([]byte(b.c.Passphrase.Reveal())))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
