package sshtest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	gossh "golang.org/x/crypto/ssh"
)

// StartInProcess starts a server that needs no OpenSSH: it accepts the same
// keys, runs commands by /bin/sh, opens direct-tcpip channels and answers
// keepalives, and nothing else. A session's command loses its stdin with its
// channel, as it does at sshd.
func StartInProcess(t testing.TB) *Server {
	t.Helper()
	s := &Server{User: "somebody", dir: t.TempDir()}
	s.make = s.generate
	s.Key, s.OtherKey = s.generate(t, "user"), s.generate(t, "other")
	s.KnownHosts = s.path("known_hosts")
	s.generate(t, "host")
	s.inner = &inProcess{t: t, listener: s.hold(t)}
	s.Trust(t, "host")
	s.Run(t)
	t.Cleanup(func() {
		s.Stop()
		s.inner.wg.Wait()
	})
	return s
}

// hold chooses the port and listens there at once. Whoever else looks for a port may have
// this one for the moment.
func (s *Server) hold(t testing.TB) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	for range 10 {
		s.Port = freePort(t)
		if l, err = net.Listen("tcp", s.Addr()); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// generate makes a key pair as ssh-keygen does.
func (s *Server) generate(t testing.TB, name string) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := gossh.MarshalPrivateKey(private, name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := gossh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.path(name), string(pem.EncodeToMemory(block)))
	write(t, s.path(name+".pub"), string(gossh.MarshalAuthorizedKey(key)))
	return s.path(name)
}

type inProcess struct {
	t        testing.TB
	wg       sync.WaitGroup
	listener net.Listener
}

func (s *Server) listen(t testing.TB) {
	t.Helper()
	private, err := os.ReadFile(s.path("host"))
	if err != nil {
		t.Fatal(err)
	}
	host, err := gossh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	authorized, err := os.ReadFile(filepath.Join(s.dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	allowed, _, _, _, err := gossh.ParseAuthorizedKey(authorized)
	if err != nil {
		t.Fatal(err)
	}
	config := &gossh.ServerConfig{
		PublicKeyCallback: func(_ gossh.ConnMetadata, key gossh.PublicKey) (*gossh.Permissions, error) {
			if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(host)
	if s.inner.listener == nil {
		if s.inner.listener, err = net.Listen("tcp", s.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	l := s.inner.listener
	s.inner.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.inner.wg.Go(func() { s.inner.serve(conn, config) })
		}
	})
}

func (p *inProcess) serve(conn net.Conn, config *gossh.ServerConfig) {
	defer conn.Close()
	c, channels, requests, err := gossh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer c.Close()
	p.wg.Go(func() { gossh.DiscardRequests(requests) })
	for open := range channels {
		switch open.ChannelType() {
		case "session":
			if ch, requests, err := open.Accept(); err == nil {
				p.wg.Go(func() { p.session(ch, requests) })
			}
		case "direct-tcpip":
			p.wg.Go(func() { p.forward(open) })
		default:
			_ = open.Reject(gossh.UnknownChannelType, "no such channel")
		}
	}
}

func (p *inProcess) session(ch gossh.Channel, requests <-chan *gossh.Request) {
	defer ch.Close()
	for r := range requests {
		var command struct{ Line string }
		if r.Type != "exec" || gossh.Unmarshal(r.Payload, &command) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		p.wg.Go(func() { gossh.DiscardRequests(requests) })
		cmd := exec.Command("/bin/sh", "-c", command.Line)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			p.t.Error(err)
			return
		}
		p.wg.Go(func() { // ends with the channel
			_, _ = io.Copy(in, ch)
			in.Close()
		})
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status >= 0 {
			_, _ = ch.SendRequest("exit-status", false, gossh.Marshal(struct{ Status uint32 }{uint32(status)}))
		}
		return
	}
}

func (p *inProcess) forward(open gossh.NewChannel) {
	var to struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	if err := gossh.Unmarshal(open.ExtraData(), &to); err != nil {
		_ = open.Reject(gossh.ConnectionFailed, err.Error())
		return
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = open.Reject(gossh.ConnectionFailed, fmt.Sprint(err))
		return
	}
	defer conn.Close()
	ch, requests, err := open.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	p.wg.Go(func() { gossh.DiscardRequests(requests) })
	done := make(chan struct{})
	p.wg.Go(func() {
		defer close(done)
		_, _ = io.Copy(conn, ch)
		_ = conn.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(ch, conn)
	_ = ch.CloseWrite()
	_ = conn.Close()
	_ = ch.Close()
	<-done
}
