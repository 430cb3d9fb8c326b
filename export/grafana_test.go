package export

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestGrafana: the dashboard names exported metrics alone, and its panels have their own
// numbers and places.
func TestGrafana(t *testing.T) {
	data, err := os.ReadFile("../docs/export/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	type target struct{ Expr, RefID string }
	type place struct{ X, Y, W, H int }
	var d struct {
		Title, UID string
		Templating struct {
			List []struct{ Name, Query string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos place
			Targets []target
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	metric := regexp.MustCompile(`sweep_[a-z0-9_]+`)
	var texts []string
	for _, v := range d.Templating.List {
		texts = append(texts, v.Query)
	}
	ids, places := map[int]bool{}, []place{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || len(p.Targets) == 0 {
			t.Errorf("panel %q: number %d stands twice, or it asks for nothing", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		for _, o := range places {
			if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("panel %q lies over another", p.Title)
			}
		}
		if g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("panel %q has the place %+v", p.Title, g)
		}
		places = append(places, g)
		for _, q := range p.Targets {
			texts = append(texts, q.Expr)
		}
	}
	if len(d.Panels) < 6 || d.Title == "" || d.UID == "" {
		t.Errorf("%d panels, title %q, uid %q", len(d.Panels), d.Title, d.UID)
	}
	for _, text := range texts {
		names := metric.FindAllString(text, -1)
		if len(names) == 0 {
			t.Errorf("%q names no metric", text)
		}
		for _, name := range names {
			if !slices.Contains(Metrics(), name) {
				t.Errorf("%s is not exported", name)
			}
		}
	}
}
