package bootstrap

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/secret"
)

func full() Options {
	return Options{
		Name: "sw-1234", Argv: []string{"vllm", "serve", "it's a \"model\" $HOME\n"},
		Lifetime: 90*time.Minute + time.Millisecond, Expires: time.Unix(1800000000, 0), Heartbeat: 2 * time.Minute,
		Grace: 10 * time.Second, Hold: true, AgentPort: 8081, AgentHost: "127.0.0.1",
		Token: secret.New("${TOKEN}", testToken), LogPath: "/var/log/engine", GiveBack: giveBack("https://rest.example.com/v2"),
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	o := full()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	argv, env := Command(o)
	if argv[0] != "/bin/sh" || argv[1] != "-c" || argv[3] != "sweep-bootstrap" || !slices.Equal(argv[4:], o.Argv) {
		t.Errorf("argv is %q", argv)
	}
	if strings.Contains(strings.Join(argv, " "), testToken) {
		t.Error("the token is on the command line")
	}
	want := map[string]string{
		"SWEEP_NAME": "sw-1234", "SWEEP_LIFETIME": "5401", "SWEEP_EXPIRES": "1800000000", "SWEEP_HEARTBEAT": "120",
		"SWEEP_GRACE": "10", "SWEEP_HOLD": "1", "SWEEP_AGENT_PORT": "8081", "SWEEP_AGENT_HOST": "127.0.0.1",
		"SWEEP_TOKEN": testToken, "SWEEP_LOG": "/var/log/engine",
		"SWEEP_END_0":       "DELETE\nhttps://rest.example.com/v2/pods/${POD_ID}\nAuthorization: Bearer ${CLOUD_KEY}\n\n200 204 404\ndeleted",
		"SWEEP_END_1":       "POST\nhttps://rest.example.com/v2/pods/${POD_ID}/action\nAuthorization: Bearer ${CLOUD_KEY}\n{\"action\":\"stop\"}\n200 204\nstopped",
		"SWEEP_END_SECRETS": "CLOUD_KEY",
		"SWEEP_AGENT_PY":    agentSource(),
	}
	if !maps.Equal(env, want) {
		delete(env, "SWEEP_AGENT_PY")
		t.Errorf("env is %q", env)
	}
	if n := size(t, argv, env); n > 40_000 {
		t.Errorf("%d bytes of a request's body", n)
	}
}

// Every variable that Command sets is known to the script, and taken out of the
// environment before the engine starts.
func TestCommand_scriptTakesAll(t *testing.T) {
	t.Parallel()
	_, env := Command(full())
	for name := range env {
		if !strings.Contains(script, "${"+name+":-") {
			t.Errorf("the script does not read %s", name)
		}
		if name != "SWEEP_EXPIRES" && !strings.Contains(script, "\nunset "+name) && !strings.Contains(script, " "+name+" ") && !strings.Contains(script, " "+name+"\n") {
			t.Errorf("the script leaves %s to the engine", name)
		}
	}
}

func TestOptions_nameIsOfTheToken(t *testing.T) {
	t.Parallel()
	o := Options{Token: secret.New("", testToken), Expires: time.Unix(1800000000, 0)}
	again, other := o, o
	other.Expires = other.Expires.Add(time.Second)
	if o.name() != again.name() || o.name() == other.name() || strings.Contains(o.name(), testToken) || !namePattern.MatchString(o.name()) {
		t.Errorf("got names %q, %q, %q", o.name(), again.name(), other.name())
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		edit func(*Options)
		want string
	}{
		{"no command", func(o *Options) { o.Argv = nil }, "no command"},
		{"an empty command", func(o *Options) { o.Argv = []string{""} }, "no command"},
		{"NUL", func(o *Options) { o.Argv[1] = "a\x00b" }, "NUL"},
		{"a name that leads elsewhere", func(o *Options) { o.Name = "../x" }, "no name"},
		{"no lifetime", func(o *Options) { o.Lifetime = 0 }, "lifetime"},
		{"a lifetime without end", func(o *Options) { o.Lifetime = 1 << 62 }, "lifetime"},
		{"before the epoch", func(o *Options) { o.Expires = time.Unix(-5, 0) }, "expires"},
		{"negative grace", func(o *Options) { o.Grace = -1 }, "grace"},
		{"heartbeat without agent", func(o *Options) { o.AgentPort = 0 }, "without an agent"},
		{"no such port", func(o *Options) { o.AgentPort = 70000 }, "port"},
		{"no token", func(o *Options) { o.Token = secret.String{} }, "token"},
		{"a token with a line end", func(o *Options) { o.Token = secret.Plain(testToken + "\n") }, "token"},
		{"relative log", func(o *Options) { o.LogPath = "engine.log" }, "log path"},
		{"key in the URL", func(o *Options) { o.GiveBack[0].URL = "https://u:p@host/v2" }, "no URL"},
		{"not HTTP", func(o *Options) { o.GiveBack[0].URL = "file:///etc" }, "no URL"},
		{"no variable", func(o *Options) { o.GiveBack[1].URL = "https://host/${1}" }, "no URL"},
		{"no method", func(o *Options) { o.GiveBack[1].Method = "DELETE /" }, "no method"},
		{"two headers", func(o *Options) { o.GiveBack[0].Header += "\nX: y" }, "header"},
		{"a command in a header", func(o *Options) { o.GiveBack[0].Header = "X: ${A:-$(id)}" }, "header"},
		{"nothing is an end", func(o *Options) { o.GiveBack[0].Done = nil }, "it is not said"},
		{"three requests", func(o *Options) { o.GiveBack = append(o.GiveBack, o.GiveBack[0]) }, "3 requests"},
	} {
		o := full()
		c.edit(&o)
		err := o.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		} else if strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: the token is in %v", c.name, err)
		}
	}
}

func TestScript_isPlainShell(t *testing.T) {
	t.Parallel()
	for name, shell := range shells() {
		if out, err := exec.Command(shell[0], append(shell[1:], "-n", "-c", script)...).CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", name, err, out)
		}
	}
	if _, err := exec.LookPath("shellcheck"); err == nil {
		if out, err := exec.Command("shellcheck", "-s", "sh", "bootstrap.sh").CombinedOutput(); err != nil {
			t.Errorf("shellcheck: %v: %s", err, out)
		}
	}
	if source := agentSource(); strings.Contains(source, "\t") || !strings.HasSuffix(source, "\n") || strings.Contains(source, "TOOLS = {}") || strings.Contains(source, "SAMPLES = []") {
		t.Error("the agent's source does not survive a here-document that drops tabs")
	}
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Error(err)
	}
}
