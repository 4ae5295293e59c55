package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Valid checks JSON against a shipped schema, and that it has only members that the schema names.
func Valid(file, text string) error {
	schemaText, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	closeObjects(schema)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:schema", schema); err != nil {
		return err
	}
	compiled, err := c.Compile("urn:schema")
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if decoder.More() {
		return fmt.Errorf("more than one JSON value")
	}
	return compiled.Validate(value)
}

// closeObjects forbids members that a schema does not name. The shipped schemas allow them, for later versions.
func closeObjects(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		if _, named := s["properties"].(map[string]any); named && s["type"] == "object" {
			if _, set := s["additionalProperties"]; !set {
				s["additionalProperties"] = false
			}
		}
		for _, inner := range s {
			closeObjects(inner)
		}
	case []any:
		for _, inner := range s {
			closeObjects(inner)
		}
	}
}
