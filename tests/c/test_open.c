/* SPDX-License-Identifier: MIT */
/*
** The first call for a GPU, by two threads at once: the plugin is opened once.
**
** The plugin is a FIFO, so that who opens it waits until somebody writes to it.  The second thread
** comes meanwhile: it has to wait for the first and take its answer.  One that opens the FIFO again
** waits for a second writer.
*/
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"
#include "ridge/device.h"

enum { PATIENCE_S = 20 };

typedef struct asking {
  pthread_t thread;
  sem_t go;
  _Atomic pid_t id;
  rg_status status;
  char said[256];
} asking;

static void *ask(void *arg)
{
  asking *a = arg;

  (void)sem_wait(&a->go);
  atomic_store(&a->id, (pid_t)syscall(SYS_gettid));
  a->status = rg_device_open(1);
  (void)snprintf(a->said, sizeof(a->said), "%s", rg_error_message());
  return NULL;
}

/* Does the thread sleep, in a lock or a system call? */
static bool sleeps(asking *a)
{
  char path[64];
  char text[256] = "";
  FILE *file;

  (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&a->id));
  file = fopen(path, "r");
  if (file != NULL) {
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
  }
  const char *state = strrchr(text, ')'); /* behind the name */

  return state != NULL && state[1] == ' ' && state[2] == 'S';
}

/* A thread that waits to begin: none can be made while a library is being opened. */
static void make(asking *a)
{
  if (sem_init(&a->go, 0, 0) != 0 || pthread_create(&a->thread, NULL, ask, a) != 0) {
    tap_bail("no thread");
  }
}

/* Let it ask, until it waits. */
static void begin(asking *a)
{
  const struct timespec pause = { .tv_nsec = 1000000 };

  (void)sem_post(&a->go);
  for (int i = 0; i < PATIENCE_S * 1000 && (atomic_load(&a->id) == 0 || !sleeps(a)); i++) {
    (void)nanosleep(&pause, NULL);
  }
}

/* Whoever has opened the FIFO to read finds its end. */
static void let_go(const char *fifo)
{
  int fd = open(fifo, O_WRONLY);

  if (fd >= 0) {
    (void)close(fd);
  }
}

static bool ends(asking *a)
{
  struct timespec until;

  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  return pthread_timedjoin_np(a->thread, NULL, &until) == 0;
}

int main(void)
{
  char folder[] = "/tmp/ridge_open_XXXXXX";
  char fifo[64];
  asking first = { 0 };
  asking second = { 0 };

  if (mkdtemp(folder) == NULL) {
    tap_bail("no folder");
  }
  (void)snprintf(fifo, sizeof(fifo), "%s/plugin", folder);
  if (mkfifo(fifo, 0600) != 0 || setenv("RIDGE_GPU", fifo, 1) != 0) {
    tap_bail("no FIFO");
  }
  make(&first);
  make(&second);
  begin(&first);
  begin(&second);
  let_go(fifo);
  ok(ends(&first), "the first thread has an answer");
  bool both = ends(&second);

  ok(both, "and the second one the same, without opening the plugin again");
  if (!both) {
    let_go(fifo);
    (void)pthread_join(second.thread, NULL);
  }
  ok(first.status == RG_EDEVICE && second.status == RG_EDEVICE, "it was no plugin");
  ok(strstr(first.said, "the GPU's kernels are not there: ") != NULL, "the first says so");
  ok(strcmp(first.said, second.said) == 0, "and the second the same");
  is_status(rg_device_open(2), RG_EDEVICE, "nor is there another GPU");
  (void)unlink(fifo);
  (void)rmdir(folder);
  return done();
}
