/* SPDX-License-Identifier: MIT */
/*
** A small TAP harness: ok(), is_int(), is_status(), close_to(), and done() at the end of main.
*/
#ifndef RIDGE_TESTS_TAP_H
#define RIDGE_TESTS_TAP_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ridge/base.h"

static int tap_run;
static int tap_failed;

/* Give up: what follows would read what could not be made. */
static inline void tap_bail(const char *why)
{
  printf("Bail out! %s\n", why);
  exit(1);
}

/* Is this a run of `make memcheck`, which starts the program once for each of its allocations? */
static inline bool tap_refusing(void)
{
  return getenv("RIDGE_ALLOC_FAIL") != NULL;
}

/* One test; what says what holds. */
#define ok(condition, what) tap_ok((condition) ? true : false, what, __FILE__, __LINE__)

#define is_int(got, want, what) \
  tap_int((long long)(got), (long long)(want), what, __FILE__, __LINE__)

#define close_to(got, want, tolerance, what) \
  tap_close((double)(got), (double)(want), (double)(tolerance), what, __FILE__, __LINE__)

/* The call returns that status; the message is printed when it does not. */
#define is_status(call, want, what) tap_status((call), (want), what, __FILE__, __LINE__)

static inline bool tap_ok(bool good, const char *what, const char *file, int line)
{
  tap_run++;
  printf("%s %d - %s\n", good ? "ok" : "not ok", tap_run, what);
  fflush(stdout); /* a watchdog asks which was the last */
  if (!good) {
    tap_failed++;
    printf("#   at %s:%d\n", file, line);
  }
  return good;
}

static inline bool tap_int(long long got, long long want, const char *what, const char *file,
                           int line)
{
  bool good = tap_ok(got == want, what, file, line);
  if (!good) {
    printf("#   got %lld, want %lld\n", got, want);
  }
  return good;
}

static inline bool tap_close(double got, double want, double tolerance, const char *what,
                             const char *file, int line)
{
  bool good = tap_ok(fabs(got - want) <= tolerance, what, file, line);
  if (!good) {
    printf("#   got %.17g, want %.17g within %g\n", got, want, tolerance);
  }
  return good;
}

static inline bool tap_status(rg_status got, rg_status want, const char *what, const char *file,
                              int line)
{
  bool good = tap_ok(got == want, what, file, line);
  if (!good) {
    printf("#   got %s, want %s: %s\n", rg_status_name(got), rg_status_name(want),
           rg_error_message());
    if (got == RG_ENOMEM && want == RG_OK) {
      tap_bail(rg_error_message());
    }
  }
  return good;
}

/* The plan line, and main's exit status. */
static inline int done(void)
{
  printf("1..%d\n", tap_run);
  if (tap_failed > 0) {
    printf("# %d of %d failed\n", tap_failed, tap_run);
  }
  return tap_failed > 0 ? 1 : 0;
}

#endif
