package facts

import (
	"encoding"
	"encoding/json"
	"reflect"
)

// Whole is a copy of a value in which no list and no map is nil, however deep it lies, so that JSON has [] and {} where
// there is nothing, never null. Pointers that are nil stay: null there says "does not have one". What writes its own
// JSON or text is left as it is.
func Whole[T any](v T) T {
	into := reflect.ValueOf(&v).Elem()
	into.Set(whole(into))
	return v
}

var (
	writesJSON = reflect.TypeFor[json.Marshaler]()
	writesText = reflect.TypeFor[encoding.TextMarshaler]()
)

func whole(v reflect.Value) reflect.Value {
	t := v.Type()
	if t.Implements(writesJSON) || t.Implements(writesText) {
		return v
	}
	switch t.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return whole(v.Elem())
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		into := reflect.New(t.Elem())
		into.Elem().Set(whole(v.Elem()))
		return into
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // JSON has it as text
			return v
		}
		into := reflect.MakeSlice(t, v.Len(), v.Len())
		for i := range v.Len() {
			into.Index(i).Set(whole(v.Index(i)))
		}
		return into
	case reflect.Map:
		into := reflect.MakeMapWithSize(t, v.Len())
		for key, value := range v.Seq2() {
			into.SetMapIndex(key, whole(value))
		}
		return into
	case reflect.Struct:
		into := reflect.New(t).Elem()
		into.Set(v)
		for i := range t.NumField() {
			if f := into.Field(i); f.CanSet() {
				f.Set(whole(v.Field(i)))
			}
		}
		return into
	}
	return v
}
