package engine

import (
	"fmt"
	"maps"
	"slices"
)

// A Set is the engines that one command knows: the built-in ones, and those
// that files have added or put in their place. The zero value is the built-in
// ones. It must not be changed while it is used.
type Set struct{ own map[string]*Profile }

// Add reads a profile, which takes the place of a built-in one of its name. A
// second of the same name is an error.
func (s *Set) Add(src []byte) (*Profile, error) {
	p, err := Parse(src)
	if err != nil {
		return nil, err
	}
	if _, ok := s.own[p.Name]; ok {
		return nil, fmt.Errorf("profile %q is given twice", p.Name)
	}
	if s.own == nil {
		s.own = make(map[string]*Profile)
	}
	s.own[p.Name] = p
	return p, nil
}

// Lookup returns the profile of that name. It is shared and must not be changed.
func (s *Set) Lookup(name string) (*Profile, bool) {
	if s != nil {
		if p, ok := s.own[name]; ok {
			return p, true
		}
	}
	return Lookup(name)
}

// Own reports whether a file has given this profile.
func (s *Set) Own(name string) bool {
	if s == nil {
		return false
	}
	_, ok := s.own[name]
	return ok
}

// Names lists the profiles, sorted.
func (s *Set) Names() []string {
	names := Names()
	if s != nil {
		names = slices.AppendSeq(names, maps.Keys(s.own))
		slices.Sort(names)
		names = slices.Compact(names)
	}
	return names
}
