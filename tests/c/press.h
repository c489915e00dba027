/* SPDX-License-Identifier: MIT */
/*
** Ctrl-C on a thread beside the one that works, once that has worked for a while by the processor's
** time.
*/
#ifndef TEST_PRESS_H
#define TEST_PRESS_H

#include <pthread.h>
#include <time.h>

#include "base/base.h"
#include "tap.h"

static inline double worked(void)
{
  struct timespec now;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Far more than the dispatcher needs before it hands the call to a kernel. */
static inline void *press(void *argument)
{
  double begin = *(double *)argument;
  struct timespec some = { .tv_nsec = 1000000 };

  while (worked() - begin < 0.02) {
    nanosleep(&some, NULL);
  }
  rg_interrupt_set();
  return NULL;
}

/* Press soon, beside the call that follows; begin lives until press_end. */
static inline pthread_t press_soon(double *begin)
{
  pthread_t thread;

  *begin = worked();
  if (pthread_create(&thread, NULL, press, begin) != 0) {
    tap_bail("no thread");
  }
  return thread;
}

/* It has pressed, and nobody is asked to stop any more. */
static inline void press_end(pthread_t thread)
{
  pthread_join(thread, NULL);
  rg_interrupt_clear();
}

#endif
