package result

import (
	"encoding/json"
	"fmt"

	"sweep.dev/sweep/result/col"
)

// A Stored is the content of result.json: an outcome with what makes it stand on its own.
type Stored struct {
	SpecDigest string `json:"spec_digest"`
	Outcome
}

// Decode reads the content of a result.json in one pass, of any method. It takes data to
// be valid JSON.
func Decode(data []byte) (*Stored, error) {
	s := &Stored{}
	o := &s.Outcome
	return s, decode(data, &o.Row, map[string]any{
		col.SpecDigest: &s.SpecDigest,
		col.CellID:     &o.CellID, "trial": &o.Trial, "attempt": &o.Attempt,
		col.StartedAt: &o.StartedAt, col.FinishedAt: &o.FinishedAt,
		"start_failure": &o.StartFailure,
		"invalid":       &o.Invalid, "findings": &o.Findings, "slos": &o.SLOs,
		"log_tail": &o.LogTail, "clients": &o.Clients, "files": &o.Files,
	})
}

// DecodeFiles is Decode of no more than which attempt it is and which files it has.
func DecodeFiles(data []byte) (*Stored, error) {
	s := &Stored{}
	o := &s.Outcome
	return s, decode(data, nil, map[string]any{col.CellID: &o.CellID, "trial": &o.Trial, "attempt": &o.Attempt, "files": &o.Files})
}

// decode sets the row, unless it is nil, and the members that have a pointer.
func decode(data []byte, row *Row, members map[string]any) error {
	s := scanner{data}
	err := s.object(func(quoted []byte) error {
		name := string(quoted[1 : len(quoted)-1])
		if name == "row" && row != nil {
			if err := s.row(row); err != nil {
				return fmt.Errorf("row: %w", err)
			}
			return nil
		}
		value, err := s.value()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if to, ok := members[name]; ok {
			if err := json.Unmarshal(value, to); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if s.space(); len(s.rest) > 0 {
		return fmt.Errorf("there is more behind the object: %.20s", s.rest)
	}
	return nil
}
