{{/* Who may use the server, and what it proves itself with. Secrets are mounted as files: an environment is easier to leak. */}}

{{/* Not empty where keys are asked for: in a Secret, in the values, or in a file that extraVolumes bring. */}}
{{- define "samovar.hasKeys" -}}
{{- if or .Values.auth.existingSecret .Values.auth.keys (dig "auth" "keys_file" "" .Values.settings) -}}yes{{- end -}}
{{- end -}}

{{/* The Secret with the file of keys, if one is mounted. */}}
{{- define "samovar.keysSecret" -}}
{{- if .Values.auth.keys -}}{{ include "samovar.fullname" . }}-keys{{- else -}}{{ .Values.auth.existingSecret }}{{- end -}}
{{- end -}}

{{- define "samovar.keysKey" -}}
{{- ternary "keys.toml" .Values.auth.existingSecretKey (not (empty .Values.auth.keys)) -}}
{{- end -}}

{{/* The file of keys that values ask for. JSON's texts and lists are TOML's, too. */}}
{{- define "samovar.keysFile" -}}
{{- range $name, $table := .Values.auth.keys }}
[{{ $name | quote }}]
{{- range $field, $value := $table }}
{{ $field }} = {{ if kindIs "float64" $value }}{{ include "samovar.plain" $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{ end -}}
{{- end -}}

{{- define "samovar.authSettings" -}}
{{- if include "samovar.keysSecret" . }}
- name: SAMOVAR_AUTH__KEYS_FILE
  value: /secrets/keys/keys.toml
{{- else if not (include "samovar.hasKeys" .) }}
# There are no keys: whoever reaches the port may do everything. The NetworkPolicy says who does.
- name: SAMOVAR_SERVER__ALLOW_UNAUTHENTICATED
  value: "true"
{{- end }}
{{- if .Values.tls.enabled }}
- name: SAMOVAR_SERVER__TLS_CERTIFICATE
  value: /secrets/tls/tls.crt
- name: SAMOVAR_SERVER__TLS_KEY
  value: /secrets/tls/tls.key
{{- end }}
{{- end -}}

{{- define "samovar.authMounts" -}}
{{- if include "samovar.keysSecret" . }}
- name: keys
  mountPath: /secrets/keys
  readOnly: true
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  mountPath: /secrets/tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "samovar.authVolumes" -}}
{{- if include "samovar.keysSecret" . }}
- name: keys
  secret:
    secretName: {{ include "samovar.keysSecret" . | quote }}
    defaultMode: 0440
    items:
      - key: {{ include "samovar.keysKey" . | quote }}
        path: keys.toml
{{- end }}
{{- if .Values.tls.enabled }}
- name: tls
  secret:
    secretName: {{ .Values.tls.existingSecret | quote }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "samovar.scheme" -}}
{{- ternary "https" "http" .Values.tls.enabled -}}
{{- end -}}

{{- define "samovar.serverName" -}}
{{- default (printf "%s.%s.svc" (include "samovar.fullname" .) .Release.Namespace) .Values.tls.serverName -}}
{{- end -}}
