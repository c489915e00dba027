/* SPDX-License-Identifier: MIT */
/*
** A library's call on a thread aside: that it runs once, where, and with how many threads; and that
** the library stays.
*/
#include <dlfcn.h>
#include <omp.h>
#include <sched.h>

#include "base/base.h"
#include "tap.h"

typedef struct seen {
  cpu_set_t where;
  int32_t n_runs, n_drops;
  int32_t threads;
} seen;

static void look(void *work)
{
  seen *s = work;

  s->n_runs++;
  s->threads = omp_get_max_threads();
  sched_getaffinity(0, sizeof(s->where), &s->where);
}

static void drop(void *work)
{
  ((seen *)work)->n_drops++;
}

static void check_once(const seen *s)
{
  is_int(s->n_runs, 1, "it ran once");
  is_int(s->n_drops, 0, "and nobody gave up what it worked on");
  ok(!rg_aside_left(), "nothing is left of it");
}

/* The library has as many threads as there are, on every processor that one of them is bound to;
** what is done at once has the caller's. */
static void test_places(void)
{
  cpu_set_t all;
  int32_t cpus[2];
  int32_t n = 0;

  sched_getaffinity(0, sizeof(all), &all);
  for (int32_t i = 0; i < CPU_SETSIZE && n < 2; i++) {
    if (CPU_ISSET((size_t)i, &all)) {
      cpus[n++] = i;
    }
  }
  is_status(rg_set_threads(3), RG_OK, "three threads");
  is_status(rg_set_affinity(cpus, n), RG_OK, "bound to two processors in turn, or to one");
  seen aside = { .threads = -1 };
  seen at_once = { .threads = -1 };

  is_status(rg_aside(look, drop, &aside), RG_OK, "a call aside");
  check_once(&aside);
  is_int(CPU_COUNT(&aside.where), n, "runs on all of them");
  for (int32_t i = 0; i < n; i++) {
    ok(CPU_ISSET((size_t)cpus[i], &aside.where), "on this one, too");
  }
  is_int(aside.threads, 3, "with three threads");
  is_status(rg_aside_at_once(look, drop, &at_once), RG_OK, "a call at once");
  check_once(&at_once);
  is_int(CPU_COUNT(&at_once.where), 1, "runs where its caller does");
  ok(CPU_ISSET((size_t)cpus[0], &at_once.where), "on the first");
  is_status(rg_set_affinity(NULL, 0), RG_OK, "unbound");
}

/* A library stays where it is, whoever closes it, once a call of it was abandoned. */
static void test_stays(void)
{
  static const char name[] = "libsqlite3.so.0"; /* nothing else here opens it */
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  void *found = library != NULL ? dlsym(library, "sqlite3_step") : NULL;
  void *again;
  void (*function)(void);

  if (found == NULL) {
    tap_bail("no SQLite");
  }
  memcpy(&function, &found, sizeof(function));
  (void)dlclose(library);
  again = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  ok(again == NULL, "a library that is closed is gone");
  library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  found = dlsym(library, "sqlite3_step");
  memcpy(&function, &found, sizeof(function));
  rg_aside_stays(function);
  (void)dlclose(library);
  again = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
  ok(again != NULL, "but one of which a call may still run");
}

int main(void)
{
  test_stays();
  test_places();
  return done();
}
