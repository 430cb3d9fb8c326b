package bootstrap

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/internal/secret"
)

// Requests to an agent may cross a network in clear text, so the key that both
// sides have is never sent. Each request and each answer carries an HMAC-SHA256:
//
//	request  session, time, nonce, method, path with its query, SHA-256 of the body
//	answer   nonce of the request, status, session, time, offset, end, exit, SHA-256 of the body
//
// each part on a line of its own, after the word request or answer. The session is
// a random number that the agent takes when it starts, and time is milliseconds of
// its own clock since then: no clock of ours has to agree with the pod's. The agent
// refuses a request of another session, one whose time is off by more than 30
// seconds, and one whose nonce it has seen. If the HMAC of such a request is right,
// the 401 carries the session and time, signed for that request's nonce, and we ask
// once more. Any other request gets a bare 401.
//
// agent.py has the other side.
const (
	scheme    = "Sweep-HMAC-SHA256"
	noSession = "00000000000000000000000000000000" // before the first answer
)

// A signer signs requests to one agent and checks its answers. Its methods may be
// called concurrently.
type signer struct {
	key   secret.String
	began time.Time // what the agent's clock is compared with

	mu      sync.Mutex
	session string
	ahead   time.Duration // of the agent's clock to the time since began
}

func newSigner(key secret.String) *signer {
	return &signer{key: key, began: time.Now(), session: noSession}
}

// sign makes the Authorization of one request, and the nonce that its answer is
// signed for.
func (s *signer) sign(method, path string, body []byte) (authorization, nonce string) {
	random := make([]byte, 16)
	_, _ = rand.Read(random) // it never fails
	nonce = hex.EncodeToString(random)
	s.mu.Lock()
	session, ahead := s.session, s.ahead
	s.mu.Unlock()
	at := strconv.FormatInt(max(0, (ahead+time.Since(s.began)).Milliseconds()), 10)
	mac := s.mac("request", session, at, nonce, method, path, digest(body))
	return strings.Join([]string{scheme, session, at, nonce, mac}, " "), nonce
}

// check reports whether an answer is the agent's own, to the request of that nonce.
// From one that is, it learns the agent's session and clock.
func (s *signer) check(nonce string, status int, h http.Header, body []byte) bool {
	session, at := h.Get("X-Sweep-Session"), h.Get("X-Sweep-Time")
	want := s.mac("answer", nonce, strconv.Itoa(status), session, at,
		h.Get("X-Sweep-Offset"), h.Get("X-Sweep-End"), h.Get("X-Sweep-Exit"), digest(body))
	if !hmac.Equal([]byte(want), []byte(h.Get("X-Sweep-Mac"))) {
		return false
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.ahead = session, time.Duration(ms)*time.Millisecond-time.Since(s.began)
	return true
}

func (s *signer) mac(parts ...string) string {
	m := hmac.New(sha256.New, []byte(s.key.Reveal()))
	m.Write([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(m.Sum(nil))
}

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
