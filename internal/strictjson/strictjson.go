// Package strictjson reads JSON files that two readers must not understand differently. RFC 8259 (section 4) leaves
// open which of two equal keys counts, and encoding/json takes a key for a field that differs from it in case: a file
// could show one value to whoever reviews it, and another to mpps. encoding/json/v2 refuses such objects by itself, and
// is an experiment in Go 1.26: once it is not, this package goes.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// TwiceError is the error about an object that has a key twice.
type TwiceError struct {
	Key    string
	Offset int // of the second one in the text, in bytes
}

func (e *TwiceError) Error() string {
	return fmt.Sprintf("%.80q stands twice in one object, the second time at byte %d", e.Key, e.Offset)
}

// notJSON is an error in JSON's syntax, without the decoder's own words.
type notJSON struct{ *json.SyntaxError }

func (e notJSON) Error() string { return fmt.Sprintf("it is no JSON from byte %d on", e.Offset) }

func (e notJSON) Unwrap() error { return e.SyntaxError }

// Unmarshal is json.Unmarshal, and fails with a TwiceError where an object has a key twice. Keys of a struct that
// differ only in case are one key, those of a map are two.
func Unmarshal(text []byte, into any) error {
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, into); errors.As(err, &syntax) {
		return notJSON{syntax}
	} else if err != nil {
		return err
	}
	s := scanner{text: text}
	s.value(reflect.TypeOf(into))
	return s.err
}

// scanner walks over valid JSON, whose depth the decoder has bounded (10,000: encoding/json, maxNestingDepth).
type scanner struct {
	text []byte
	at   int
	err  error
}

// next returns the next byte that is no white space.
func (s *scanner) next() byte {
	for strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
	return s.text[s.at]
}

// value passes a value that is decoded into a type; nil: into none that is known.
func (s *scanner) value(into reflect.Type) {
	for into != nil && into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	switch s.next() {
	case '{':
		s.object(into)
	case '[':
		if into != nil && (into.Kind() == reflect.Slice || into.Kind() == reflect.Array) {
			into = into.Elem()
		} else {
			into = nil
		}
		s.list(']', func() { s.value(into) })
	case '"':
		s.word()
	default: // a number, true, false, null
		for s.at < len(s.text) && strings.IndexByte(",]} \t\r\n", s.text[s.at]) < 0 {
			s.at++
		}
	}
}

// list passes the members of an object or array, to its closing bracket.
func (s *scanner) list(closing byte, member func()) {
	s.at++
	for s.err == nil && s.next() != closing {
		if s.text[s.at] == ',' {
			s.at++
			continue
		}
		member()
	}
	s.at++
}

func (s *scanner) object(into reflect.Type) {
	var fields map[string]reflect.Type
	var element reflect.Type
	switch {
	case into == nil:
	case into.Kind() == reflect.Struct:
		fields = fieldsOf(into)
	case into.Kind() == reflect.Map:
		element = into.Elem()
	}
	seen := map[string]bool{}
	s.list('}', func() {
		offset := s.at
		key := s.word()
		member, kind := key, element
		if fields != nil {
			member = fold(key)
			kind = fields[member]
		}
		if seen[member] {
			s.err = &TwiceError{key, offset}
			return
		}
		seen[member] = true
		s.next() // the colon
		s.at++
		s.value(kind)
	})
}

// word passes a string and returns it.
func (s *scanner) word() string {
	start := s.at
	plain := true
	for s.at++; s.text[s.at] != '"'; s.at++ {
		switch c := s.text[s.at]; {
		case c == '\\':
			s.at++
			plain = false
		case c >= 0x80:
			plain = false
		}
	}
	s.at++
	quoted := s.text[start:s.at]
	var word string
	if plain || json.Unmarshal(quoted, &word) != nil {
		word = string(bytes.Trim(quoted, `"`))
	}
	return word
}

// fold returns what keys have in common that encoding/json takes for the same field: 'ſ' is an s there, 'K' a k.
func fold(key string) string { return strings.ToLower(strings.ToUpper(key)) }

var known sync.Map // of maps, by the type of their struct

// fieldsOf returns the types of a struct's fields by their folded names in JSON.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	if fields, is := known.Load(of); is {
		return fields.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		fields[fold(name)] = f.Type
	}
	known.Store(of, fields)
	return fields
}
