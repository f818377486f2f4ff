#!/bin/sh
# Bundles the page into the folder $1.
set -eu
cd "$(dirname "$0")"
exec node_modules/.bin/esbuild src/page.jsx --bundle --minify --format=iife --target=es2022 --jsx=automatic \
  --outfile="$1/page.js" --alias:react-custom-scrollbars-2=./src/scrollbars.cjs '--define:process.env.NODE_ENV="production"' --log-level=error \
  --loader:.svg=dataurl --loader:.woff=dataurl --loader:.woff2=dataurl --loader:.ttf=dataurl --loader:.png=dataurl
