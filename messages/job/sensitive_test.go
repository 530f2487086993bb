package job

import "testing"

func TestSensitive(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "proxy-authorization": true, "Set-Cookie": true, "X-Api-Key": true, "api_key": true, "APIKEY": true,
		"Webhook-Signature": true, "key": true, "sig": true, "X-Amz-Credential": true, "session_id": true, "password": true,
		"Content-Type": false, "X-Request-Id": false, "keyboard": false, "signal": false, "postcode": false, "": false,
	} {
		if got := Sensitive(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
