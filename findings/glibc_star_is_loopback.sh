#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# glibc's getaddrinfo resolves the name "*", with a service, to the loopback.
#
# Expected: "*" is no host's name, so getaddrinfo("*", "80") fails with EAI_NONAME, as it does for other such texts and
# without a service, and as musl's does.
# What happens: glibc takes "*" for a null pointer, that is for the loopback where AI_PASSIVE is not set, and for all
# addresses where it is. Neither POSIX nor getaddrinfo(3) says so. A program that listens at "*" by a library which means
# all addresses, and asks whether that text resolves to the loopback, is told that it does; without a service it is not.
#
# Seen on 2026-11-28 with glibc 2.36 (Debian 12) and musl of ziglang 0.13.0 from PyPI:
#   glibc: "*" with service 80: ::1 127.0.0.1; without: Name or service not known; "?" with service 80: Name or service not known
#   musl:  "*" with service 80: Name does not resolve; without: Name does not resolve; "?" with service 80: Name does not resolve
# (The addresses depend on the host's loopback; without a name server the last one may be a temporary failure.)
#
# Exits with 0 while glibc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >star.c <<'C'
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
static int show(const char* name, const char* service) {
  struct addrinfo hints = {0}, *found = NULL;
  hints.ai_socktype = SOCK_STREAM;
  const int status = getaddrinfo(name, service, &hints, &found);
  if (status != 0) return printf(" %s", gai_strerror(status)), status;
  for (struct addrinfo* a = found; a != NULL; a = a->ai_next) {
    char text[NI_MAXHOST];
    getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
    printf(" %s", text);
  }
  freeaddrinfo(found);
  return 0;
}
int main(void) {
  printf("\"*\" with service 80:");
  const int with_service = show("*", "80");
  printf("; without:");
  const int without = show("*", NULL);
  printf("; \"?\" with service 80:");
  const int other = show("?", "80");
  puts("");
  return with_service != 0 && without != 0 && other != 0 ? 1 : with_service == 0 && without != 0 && other != 0 ? 0 : 2;
}
C
python3 -m venv venv
venv/bin/pip -q install ziglang==0.13.0
export ZIG_GLOBAL_CACHE_DIR=$work/cache
venv/bin/python -m ziglang cc -target x86_64-linux-gnu star.c -o star_glibc
venv/bin/python -m ziglang cc -target x86_64-linux-musl star.c -o star_musl
getconf GNU_LIBC_VERSION
echo "musl:  $(./star_musl || true)"
printf 'glibc: '
./star_glibc
