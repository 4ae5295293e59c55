package facts

import (
	"encoding"
	"encoding/json"
	"reflect"
)

// NonNil returns a deep copy in which no list or map is nil, so that JSON has [] and {}, never null. Nil pointers stay:
// null there means "does not have one". Types that write their own JSON or text are copied as they are.
func NonNil[T any](v T) T {
	into := reflect.ValueOf(&v).Elem()
	into.Set(nonNil(into))
	return v
}

var (
	writesJSON = reflect.TypeFor[json.Marshaler]()
	writesText = reflect.TypeFor[encoding.TextMarshaler]()
)

func nonNil(v reflect.Value) reflect.Value {
	t := v.Type()
	if t.Implements(writesJSON) || t.Implements(writesText) {
		return v
	}
	switch t.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		return nonNil(v.Elem())
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		into := reflect.New(t.Elem())
		into.Elem().Set(nonNil(v.Elem()))
		return into
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // JSON encodes it as text
			return v
		}
		into := reflect.MakeSlice(t, v.Len(), v.Len())
		for i := range v.Len() {
			into.Index(i).Set(nonNil(v.Index(i)))
		}
		return into
	case reflect.Map:
		into := reflect.MakeMapWithSize(t, v.Len())
		for key, value := range v.Seq2() {
			into.SetMapIndex(key, nonNil(value))
		}
		return into
	case reflect.Struct:
		into := reflect.New(t).Elem()
		into.Set(v)
		for i := range t.NumField() {
			if f := into.Field(i); f.CanSet() {
				f.Set(nonNil(v.Field(i)))
			}
		}
		return into
	}
	return v
}
