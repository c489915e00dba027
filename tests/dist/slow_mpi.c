/* SPDX-License-Identifier: MIT */
/*
** A transport that waits: messages of real ranks by libridge_mpi.so, each of which is said to
** have come later than it has.  A collective takes alpha longer (where ranks tell each other what
** they do), and beta for each byte of data that a rank receives; what it sends leaves meanwhile, at
** the same rate.  Nothing of it takes a processor: a rank computes while it waits.
**
** RIDGE_SLOW=ALPHA,BETA: microseconds, and nanoseconds a byte.  While there is a file
** RIDGE_SLOW_HOLD.RANK, no message comes to an end on a rank.
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dist/group.h"

typedef struct slot {
  int64_t due; /* when it may be told */
  bool came;
} slot;

typedef struct slow {
  rg_transport real;
  int64_t alpha_ns;
  double beta_ns;
  int64_t in_free; /* until when the way to this rank is taken, and that from it */
  int64_t out_free;
  slot *slots;
} slow;

static rg_transport_host host;
static char name[96];
static char hold[4096]; /* a file; empty: none */

static int64_t now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A message of n bytes begins. */
static void begin(slow *s, int32_t at, int32_t tag, int64_t n, int64_t *way)
{
  int64_t from = now();

  if (tag == RG_TAG_DATA) {
    *way = rg_max_i64(from, *way) + (int64_t)(s->beta_ns * (double)n);
    from = *way;
  } else {
    from += s->alpha_ns;
  }
  s->slots[at] = (slot){ .due = from };
}

static rg_status slow_send(void *self, int32_t at, int32_t peer, int32_t tag, const void *bytes,
                           int64_t n)
{
  slow *s = self;

  begin(s, at, tag, n, &s->out_free);
  return s->real.send(s->real.self, at, peer, tag, bytes, n);
}

static rg_status slow_receive(void *self, int32_t at, int32_t peer, int32_t tag, void *bytes,
                              int64_t n)
{
  slow *s = self;

  begin(s, at, tag, n, &s->in_free);
  return s->real.receive(s->real.self, at, peer, tag, bytes, n);
}

static rg_status slow_test(void *self, int32_t at, bool *done)
{
  slow *s = self;
  rg_status status = RG_OK;

  if (!s->slots[at].came) {
    status = s->real.test(s->real.self, at, &s->slots[at].came);
  }
  *done = status == RG_OK && s->slots[at].came && now() >= s->slots[at].due &&
          (hold[0] == '\0' || access(hold, F_OK) != 0);
  return status;
}

static void slow_end(void *self)
{
  slow *s = self;

  s->real.end(s->real.self);
  free(s->slots);
  free(s);
}

/* The library that this one is built beside. */
static rg_transport_entry *real_entry(void)
{
  Dl_info info;
  char path[4096];
  void *library;

  if (dladdr(&host, &info) == 0 || strrchr(info.dli_fname, '/') == NULL) {
    return NULL;
  }
  snprintf(path, sizeof(path), "%.*s/../libridge_mpi.so",
           (int)(strrchr(info.dli_fname, '/') - info.dli_fname), info.dli_fname);
  library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  return library == NULL ? NULL
                         : (rg_transport_entry *)(uintptr_t)dlsym(library, "rg_mpi_transport");
}

RG_API rg_transport_entry rg_mpi_transport;
rg_status rg_mpi_transport(const rg_transport_host *given, rg_transport *out)
{
  const char *text = getenv("RIDGE_SLOW");
  rg_transport_entry *entry = real_entry();
  slow *s = calloc(1, sizeof(*s));
  double alpha_us = -1;
  double beta_ns = -1;
  rg_status status;

  host = *given;
  if (s == NULL || entry == NULL || text == NULL ||
      sscanf(text, "%lf,%lf", &alpha_us, &beta_ns) != 2 || !(alpha_us >= 0) || !(beta_ns >= 0)) {
    free(s);
    return host.fail(RG_ENET, "dist: the slow transport needs libridge_mpi.so and "
                              "RIDGE_SLOW=ALPHA_US,BETA_NS");
  }
  status = entry(given, &s->real);
  if (status == RG_OK) s->slots = calloc((size_t)s->real.size * 2, sizeof(*s->slots));
  if (s->slots == NULL) {
    free(s);
    return status != RG_OK ? status : host.fail(RG_ENOMEM, "dist: no memory for messages");
  }
  s->alpha_ns = (int64_t)(alpha_us * 1e3);
  s->beta_ns = beta_ns;
  snprintf(name, sizeof(name), "SIMULATED: %s, %g us a collective and %g ns a byte", s->real.name,
           alpha_us, beta_ns);
  if (getenv("RIDGE_SLOW_HOLD") != NULL) {
    snprintf(hold, sizeof(hold), "%s.%d", getenv("RIDGE_SLOW_HOLD"), s->real.rank);
  }
  *out = s->real;
  out->name = name;
  out->self = s;
  out->send = slow_send;
  out->receive = slow_receive;
  out->test = slow_test;
  out->end = slow_end;
  return RG_OK;
}
