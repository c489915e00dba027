/* SPDX-License-Identifier: MIT */
/*
** Threads that gather the rows of batches.
**
** Batches stand in a ring: ordered by one thread, gathered by any, taken in their order.  A thread
** gathers a whole batch, so that what it does to it needs no other; how many there are shows in
** nothing but the time.
*/
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "data/data.h"
#include "tensor/tensor.h"

enum { FIELDS = 8, MESSAGE = 256, WORKERS = 256, ROOM = 4096 };

typedef enum stage { FREE, ORDERED, UNDER_WAY, DONE, FAILED } stage;

typedef struct batch {
  stage stage;
  int64_t *index;
  int64_t count;
  int64_t index_room;
  rg_tensor *out[FIELDS];
  rg_status status;
  char message[MESSAGE];
} batch;

struct rg_loader {
  rg_field field[FIELDS];
  rg_transform transform;
  pthread_mutex_t lock;
  pthread_cond_t ordered;
  pthread_cond_t done;
  pthread_t thread[WORKERS];
  batch *ring;
  int64_t first; /* the oldest batch that was not taken */
  int64_t next;  /* the next one to be ordered */
  int64_t work;  /* the next one to be gathered */
  int32_t n;
  int32_t room;
  int32_t workers;
  int32_t alive; /* threads that have not come to their end */
  bool transforms;
  bool ending;
  bool given_up; /* Ctrl-C ended the last wait for a batch */
  bool left;     /* nobody waits for the threads: the last one frees everything */
};

/* -- Rows ------------------------------------------------------------------------------------- */

/* A field's part of a batch, and how far it has come. */
typedef struct part {
  const rg_field *f;
  const batch *b;
  char *to;
  volatile int64_t done;
  volatile bool stopped; /* by Ctrl-C */
} part;

static void gather_rows(void *argument)
{
  part *p = argument;
  const rg_field *f = p->f;
  int64_t bytes = f->numbers * rg_dtype_bytes(f->dtype);
  char *to = p->to;

  for (int64_t i = 0; i < p->b->count; i++, to += f->numbers * rg_dtype_bytes(f->out)) {
    const char *from = (const char *)f->data + p->b->index[i] * bytes;

    p->done = i;
    if (rg_interrupt_pending()) {
      p->stopped = true;
      return;
    }
    if (rg_field_converts(f)) {
      rg_field_convert(f, from, (float *)(void *)to);
    } else {
      memcpy(to, from, (size_t)bytes);
    }
  }
}

/* The first of a batch's rows that its file does not hold any more, or -1. */
static int64_t missing(const part *p, rg_status *status)
{
  const rg_field *f = p->f;
  int64_t bytes = f->numbers * rg_dtype_bytes(f->dtype);
  int64_t last = -1;

  for (int64_t i = 0; i < p->b->count; i++) {
    last = rg_max_i64(last, p->b->index[i]);
  }
  *status = rg_map_check(f->file, f->offset + (last + 1) * bytes);
  for (int64_t i = 0; i < p->b->count && *status != RG_OK; i++) {
    rg_status of_row = rg_map_check(f->file, f->offset + (p->b->index[i] + 1) * bytes);

    if (of_row != RG_OK) {
      *status = of_row;
      return p->b->index[i];
    }
  }
  return -1;
}

/* The rows of a file that has become shorter are zeros as far as its last page goes, and behind it
** a fault: its size is asked for when they have been read. */
static rg_status gather_mapped(part *p, char *message)
{
  bool whole = rg_guarded(gather_rows, p);
  rg_status status;
  int64_t row = p->stopped ? -1 : missing(p, &status);

  if (row >= 0) {
    (void)snprintf(message, MESSAGE, "row %lld is %s", (long long)row, rg_error_message());
    return status;
  }
  if (!whole) {
    (void)snprintf(message, MESSAGE, "row %lld cannot be read from its disk",
                   (long long)p->b->index[p->done]);
    return RG_EIO;
  }
  return RG_OK;
}

/* Is nobody going to wait for the batch? */
static bool is_over(rg_loader *self)
{
  pthread_mutex_lock(&self->lock);
  bool ending = self->ending;
  pthread_mutex_unlock(&self->lock);
  return ending || rg_interrupt_pending() != 0;
}

/* A function in Lua does not look at Ctrl-C: it gets as many rows at a time as it does in about a
** hundredth of a second. */
static rg_status transform(rg_loader *self, batch *b, void *state, void *const *fields)
{
  const int64_t short_one = 10000000;
  void *at[FIELDS];
  int64_t most = 1;

  for (int64_t i = 0; i < b->count;) {
    int64_t n = rg_min_i64(most, b->count - i);
    int64_t begin = rg_clock_ns();

    if (is_over(self)) {
      return RG_EINTR;
    }
    for (int32_t k = 0; k < self->n; k++) {
      const rg_field *f = &self->field[k];

      at[k] = (char *)fields[k] + i * f->numbers * rg_dtype_bytes(f->out);
    }
    if (self->transform.run(state, at, b->index + i, n, b->message, MESSAGE) != 0) {
      return rg_interrupt_pending() ? RG_EINTR : RG_EARG; /* it may be why it failed */
    }
    i += n;
    most = rg_clock_ns() - begin < short_one ? 2 * n : rg_max_i64(1, n / 2);
  }
  return RG_OK;
}

static rg_status gather(rg_loader *self, batch *b, void *state)
{
  void *fields[FIELDS];

  for (int32_t i = 0; i < self->n; i++) {
    const rg_field *f = &self->field[i];
    part p = { .f = f, .b = b, .to = b->out[i]->_data };

    fields[i] = p.to;
    if (f->file >= 0) {
      RG_TRY(gather_mapped(&p, b->message));
    } else {
      gather_rows(&p);
    }
    if (p.stopped) {
      return RG_EINTR;
    }
  }
  return self->transforms ? transform(self, b, state, fields) : RG_OK;
}

/* -- Threads ---------------------------------------------------------------------------------- */

static rg_status open_state(const rg_loader *self, void **state, char *message)
{
  if (self->transforms && self->transform.open(self->transform.given, state, message, MESSAGE)) {
    return RG_EARG;
  }
  return RG_OK;
}

/* A tenth of a second at most, so that Ctrl-C is seen; the caller holds the lock. */
static void wait_some(rg_loader *self, pthread_cond_t *for_what)
{
  struct timespec until;

  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 100000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_cond_timedwait(for_what, &self->lock, &until);
}

/* What Ctrl-C ended is made anew once it is over: who asked may ask again.  The caller holds the
** lock. */
static void wait_for_calm(rg_loader *self)
{
  while (!self->ending && rg_interrupt_pending()) {
    wait_some(self, &self->done); /* a signal of the other would be meant for somebody else */
  }
}

static void destroy(rg_loader *self);

/* The end of a thread. */
static void leave(rg_loader *self)
{
  pthread_mutex_lock(&self->lock);
  self->alive--;
  bool left = self->left;
  bool last = left && self->alive == 0;
  pthread_cond_broadcast(&self->done);
  pthread_mutex_unlock(&self->lock);
  if (last) {
    destroy(self);
  }
  if (left) {
    rg_aside_stray(-1);
  }
}

static void *worker(void *argument)
{
  rg_loader *self = argument;
  void *state = NULL;
  char why[MESSAGE] = "";
  rg_status opened = open_state(self, &state, why);

  pthread_mutex_lock(&self->lock);
  for (;;) {
    while (!self->ending && self->work == self->next) {
      pthread_cond_wait(&self->ordered, &self->lock);
    }
    if (self->ending) {
      break;
    }
    batch *b = &self->ring[self->work++ % self->room];
    b->stage = UNDER_WAY;
    pthread_mutex_unlock(&self->lock);
    if (opened == RG_OK) {
      b->status = gather(self, b, state);
    } else {
      b->status = opened;
      memcpy(b->message, why, MESSAGE);
    }
    pthread_mutex_lock(&self->lock);
    while (b->status == RG_EINTR && !self->ending) {
      wait_for_calm(self);
      pthread_mutex_unlock(&self->lock);
      b->status = gather(self, b, state);
      pthread_mutex_lock(&self->lock);
    }
    b->stage = b->status == RG_OK ? DONE : FAILED;
    pthread_cond_signal(&self->done);
  }
  pthread_mutex_unlock(&self->lock);
  if (self->transforms && opened == RG_OK) {
    self->transform.close(state);
  }
  leave(self);
  return NULL;
}

/* Ctrl-C and the like are for the thread that waits; a fault is for the one whose it is. */
static rg_status start(rg_loader *self, int32_t workers)
{
  sigset_t all;
  sigset_t before;
  int why = 0;

  sigfillset(&all);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&self->lock);
  for (; self->workers < workers && why == 0; self->workers += why == 0) {
    why = pthread_create(&self->thread[self->workers], NULL, worker, self);
  }
  self->alive = self->workers;
  pthread_mutex_unlock(&self->lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (why != 0) {
    return rg_fail(RG_ESYS, "loader: thread %d of %d cannot be started: %s", self->workers + 1,
                   workers, strerror(why));
  }
  return RG_OK;
}

/* -- Making ----------------------------------------------------------------------------------- */

static rg_status check(const rg_field *fields, int32_t n, int32_t workers, int32_t room)
{
  if (n < 1 || n > FIELDS) {
    return rg_fail(RG_EARG, "loader: %d fields; 1 to %d are possible", n, FIELDS);
  }
  if (workers < 0 || workers > WORKERS || room < 1 || room > ROOM) {
    return rg_fail(RG_EARG, "loader: %d threads with room for %d batches; up to %d and 1 to %d",
                   workers, room, WORKERS, ROOM);
  }
  for (int32_t i = 0; i < n; i++) {
    const rg_field *f = &fields[i];

    if (f->rows != fields[0].rows || f->numbers < 0) {
      return rg_fail(RG_EARG, "loader: field %d has %lld rows and the first %lld", i + 1,
                     (long long)f->rows, (long long)fields[0].rows);
    }
    if (rg_field_converts(f) && (f->out != RG_F32 || !rg_field_turns(f->dtype))) {
      return rg_fail(RG_EDTYPE,
                     "loader: field %d cannot become %s from %s; f32 from f32, f64 and "
                     "whole numbers is possible",
                     i + 1, rg_dtype_name(f->out), rg_dtype_name(f->dtype));
    }
  }
  return RG_OK;
}

rg_status rg_loader_new(const rg_field *fields, int32_t n, int32_t workers, int32_t room,
                        const rg_transform *transform, rg_loader **out)
{
  rg_loader *self;
  rg_status status = RG_OK;

  RG_TRY(check(fields, n, workers, room));
  self = rg_host_zeroed(sizeof(*self));
  if (self == NULL) {
    return rg_fail(RG_ENOMEM, "loader: no memory to begin");
  }
  memcpy(self->field, fields, (size_t)n * sizeof(*fields));
  self->n = n;
  self->room = room;
  self->transforms = transform != NULL;
  self->transform = transform != NULL ? *transform : (rg_transform){ 0 };
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->ordered, NULL);
  pthread_cond_init(&self->done, NULL);
  self->ring = rg_host_zeroed((size_t)room * sizeof(*self->ring));
  if (self->ring == NULL) {
    status = rg_fail(RG_ENOMEM, "loader: no memory for a ring of %d batches", room);
  }
  if (status == RG_OK) {
    /* what a transform does in a row nobody can end: it is left, which takes a thread of its own */
    status = start(self, workers == 0 && transform != NULL ? 1 : workers);
  }
  for (int32_t i = 0; i < n; i++) {
    self->field[i].tensor = rg_tensor_retain(self->field[i].tensor);
    self->field[i].map = rg_map_retain(self->field[i].map);
  }
  if (status != RG_OK) {
    self->transform.drop = NULL; /* still the caller's */
    rg_loader_release(self);
    return status;
  }
  *out = self;
  return RG_OK;
}

/* No thread is left. */
static void destroy(rg_loader *self)
{
  for (int32_t i = 0; self->ring != NULL && i < self->room; i++) {
    for (int32_t k = 0; k < self->n; k++) {
      rg_tensor_release(self->ring[i].out[k]);
    }
    rg_host_free(self->ring[i].index);
  }
  for (int32_t k = 0; k < self->n; k++) {
    rg_tensor_release(self->field[k].tensor);
    rg_map_release(self->field[k].map);
  }
  if (self->transforms && self->transform.drop != NULL) {
    self->transform.drop(self->transform.given);
  }
  pthread_cond_destroy(&self->done);
  pthread_cond_destroy(&self->ordered);
  pthread_mutex_destroy(&self->lock);
  rg_host_free(self->ring);
  rg_host_free(self);
}

/* Wait for the threads, but not for a row that Ctrl-C found under way: those come to their end by
** themselves.  Did all of them? */
static bool wait_for_threads(rg_loader *self)
{
  const int64_t some_ns = 200000000; /* for those that have only been told */
  int64_t since = 0;

  pthread_mutex_lock(&self->lock);
  self->ending = true;
  pthread_cond_broadcast(&self->ordered);
  while (self->alive > 0 && !self->left) {
    wait_some(self, &self->done);
    if (since == 0 && (self->given_up || rg_interrupt_pending())) {
      since = rg_clock_ns();
    }
    self->left = self->alive > 0 && since > 0 && rg_clock_ns() - since >= some_ns;
  }
  if (self->left) {
    rg_aside_stray(self->alive);
    for (int32_t i = 0; i < self->workers; i++) {
      pthread_detach(self->thread[i]);
    }
  }
  bool all = !self->left;
  pthread_mutex_unlock(&self->lock);
  return all;
}

void rg_loader_release(rg_loader *self)
{
  if (self == NULL || !wait_for_threads(self)) {
    return;
  }
  for (int32_t i = 0; i < self->workers; i++) {
    pthread_join(self->thread[i], NULL);
  }
  destroy(self);
}

/* -- Ordering and taking ---------------------------------------------------------------------- */

static rg_status check_order(const rg_loader *self, const int64_t *index, int64_t count,
                             rg_tensor *const *out)
{
  char text[96];

  if (self->next - self->first == self->room) {
    return rg_fail(RG_EARG, "loader: %d batches wait to be taken already", self->room);
  }
  for (int64_t i = 0; i < count; i++) {
    if (index[i] < 0 || index[i] >= self->field[0].rows) {
      return rg_fail(RG_EARG, "loader: there is no row %lld; they go from 0 to %lld",
                     (long long)index[i], (long long)self->field[0].rows - 1);
    }
  }
  for (int32_t k = 0; k < self->n; k++) {
    RG_TRY(rg_tensor_check(out[k], "loader"));
    if (out[k]->_dtype != self->field[k].out || out[k]->_device != RG_CPU ||
        out[k]->_count != count * self->field[k].numbers ||
        (out[k]->_flags & RG_TENSOR_CONTIGUOUS) == 0) {
      return rg_fail(RG_ESHAPE, "loader: field %d of %lld rows does not fit %s", k + 1,
                     (long long)count, rg_tensor_text(out[k], text, sizeof(text)));
    }
  }
  return RG_OK;
}

/* Nobody else looks at a free batch. */
static rg_status fill(const rg_loader *self, batch *b, const int64_t *index, int64_t count,
                      rg_tensor *const *out)
{
  if (count > b->index_room) {
    int64_t *grown = rg_host_alloc((size_t)count * sizeof(*grown));

    if (grown == NULL) {
      return rg_fail(RG_ENOMEM, "loader: no memory for the numbers of %lld rows", (long long)count);
    }
    rg_host_free(b->index);
    b->index = grown;
    b->index_room = count;
  }
  if (count > 0) {
    memcpy(b->index, index, (size_t)count * sizeof(*index));
  }
  b->count = count;
  for (int32_t k = 0; k < self->n; k++) {
    b->out[k] = rg_tensor_retain(out[k]);
  }
  return RG_OK;
}

rg_status rg_loader_order(rg_loader *self, const int64_t *index, int64_t count,
                          rg_tensor *const *out)
{
  batch *b;

  RG_TRY(check_order(self, index, count, out));
  b = &self->ring[self->next % self->room];
  RG_TRY(fill(self, b, index, count, out));
  pthread_mutex_lock(&self->lock);
  b->stage = ORDERED;
  self->next++;
  pthread_cond_signal(&self->ordered);
  pthread_mutex_unlock(&self->lock);
  return RG_OK;
}

/* Without threads: now, here. */
static void gather_here(rg_loader *self, batch *b)
{
  b->status = gather(self, b, NULL);
  if (b->status == RG_EINTR) {
    return;
  }
  self->work++;
  b->stage = b->status == RG_OK ? DONE : FAILED;
}

rg_status rg_loader_next(rg_loader *self, rg_tensor **out)
{
  batch *b = &self->ring[self->first % self->room];
  rg_status status;

  if (self->first == self->next) {
    return rg_fail(RG_EARG, "loader: no batch was ordered");
  }
  if (self->workers == 0) {
    gather_here(self, b);
    if (b->stage == ORDERED) {
      return rg_fail(RG_EINTR, "interrupted");
    }
  }
  pthread_mutex_lock(&self->lock);
  while (b->stage != DONE && b->stage != FAILED && !rg_interrupt_pending()) {
    wait_some(self, &self->done);
  }
  bool ready = b->stage == DONE || b->stage == FAILED;
  self->given_up = !ready;
  pthread_mutex_unlock(&self->lock);
  if (!ready) {
    return rg_fail(RG_EINTR, "interrupted");
  }
  status = b->status;
  self->first++;
  b->stage = FREE;
  for (int32_t k = 0; k < self->n; k++) {
    if (status == RG_OK) {
      out[k] = b->out[k];
    } else {
      rg_tensor_release(b->out[k]);
    }
    b->out[k] = NULL;
  }
  return status == RG_OK ? RG_OK : rg_fail(status, "loader: %s", b->message);
}

int32_t rg_loader_ready(rg_loader *self)
{
  const batch *b = &self->ring[self->first % self->room];
  bool ready;

  if (self->first == self->next || self->workers == 0) {
    return self->first != self->next;
  }
  pthread_mutex_lock(&self->lock);
  ready = b->stage == DONE || b->stage == FAILED;
  pthread_mutex_unlock(&self->lock);
  return ready;
}

int32_t rg_loader_waiting(const rg_loader *self)
{
  return (int32_t)(self->next - self->first);
}
