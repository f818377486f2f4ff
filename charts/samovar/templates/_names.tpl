{{/* Names and labels. Selectors hold neither version nor chart, which change. */}}

{{- define "samovar.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* 50 characters leave room for suffixes within a DNS label. */}}
{{- define "samovar.fullname" -}}
{{- $name := include "samovar.name" . -}}
{{- $whole := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $whole .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "samovar.selectorLabels" -}}
app.kubernetes.io/name: {{ include "samovar.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "samovar.labels" -}}
{{ include "samovar.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "samovar.metadata" -}}
name: {{ include "samovar.fullname" . | quote }}
namespace: {{ .Release.Namespace | quote }}
labels:
  {{- include "samovar.labels" . | nindent 2 }}
{{- end -}}

{{- define "samovar.serviceAccountName" -}}
{{- default (ternary (include "samovar.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "samovar.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "samovar.cacheClaimName" -}}
{{- default (printf "%s-cache" (include "samovar.fullname" .)) .Values.cache.claim.existing -}}
{{- end -}}
