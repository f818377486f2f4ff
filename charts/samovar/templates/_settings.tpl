{{/* The server's settings as environment variables, and the numbers that follow from them. */}}

{{/* YAML's whole numbers reach a template as floats, which would print as 5e+08. An object is a setting of JSON. */}}
{{- define "samovar.plain" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ printf "%.0f" . }}
{{- else if kindIs "map" . -}}{{ toJson . }}
{{- else -}}{{ toString . }}
{{- end -}}
{{- end -}}

{{- define "samovar.settings" -}}
{{- range $section, $keys := .Values.settings }}
{{- if kindIs "map" $keys }}
{{- range $key, $value := $keys }}
- name: {{ printf "SAMOVAR_%s__%s" $section $key | upper | quote }}
  value: {{ include "samovar.plain" $value | quote }}
{{- end }}
{{- else }}
- name: {{ printf "SAMOVAR_%s" $section | upper | quote }}
  value: {{ include "samovar.plain" $keys | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Not empty where a Secret holds the hub's token. It is mounted as a file: an environment is easier to leak. */}}
{{- define "samovar.hubToken" -}}
{{- if eq .Values.model.source "hub" -}}{{ .Values.model.hub.tokenSecret.name }}{{- end -}}
{{- end -}}

{{/* Where the model is, as the server is told. */}}
{{- define "samovar.modelSettings" -}}
{{- with .Values.model }}
{{- if eq .source "hub" }}
- name: SAMOVAR_MODEL__PATH
  value: {{ .hub.repository | quote }}
{{- with .hub.revision }}
- name: SAMOVAR_MODEL__REVISION
  value: {{ . | quote }}
{{- end }}
{{- if include "samovar.hubToken" $ }}
- name: HF_TOKEN_PATH
  value: /secrets/hub/token
{{- end }}
{{- else if ne .source "demo" }}
- name: SAMOVAR_MODEL__PATH
  value: {{ printf "/models/%s" .folder | trimSuffix "/" | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Longer than the server needs to end by itself, or the kubelet kills it in the middle of its last words. */}}
{{- define "samovar.gracePeriodSeconds" -}}
{{- add .Values.shutdown.preStopSeconds .Values.settings.server.drain_seconds .Values.shutdown.marginSeconds -}}
{{- end -}}

{{/* How long a session may come back to its snapshots. Where nothing expires, a day. */}}
{{- define "samovar.sessionSeconds" -}}
{{- $ttl := .Values.settings.snapshots.ttl -}}
{{- if kindIs "string" $ttl -}}86400{{- else -}}{{ int64 $ttl }}{{- end -}}
{{- end -}}

{{- define "samovar.affinitySeconds" -}}
{{- $seconds := int64 .Values.service.sessionAffinity.seconds -}}
{{- min 86400 (ternary (include "samovar.sessionSeconds" . | int64) $seconds (eq $seconds 0)) -}}
{{- end -}}

{{- define "samovar.scaleDownSeconds" -}}
{{- $seconds := int64 .Values.autoscaling.scaleDownSeconds -}}
{{- ternary (include "samovar.sessionSeconds" . | int64) $seconds (eq $seconds 0) -}}
{{- end -}}

{{- define "samovar.port" -}}
{{- ternary .Values.externalHosts.port .Values.settings.server.port .Values.externalHosts.enabled -}}
{{- end -}}
