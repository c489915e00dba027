/* SPDX-License-Identifier: MIT */
/*
** MPI as a transport: a library of its own, libridge_mpi.so, that ridge opens at run time where a
** launcher started it.  It links nothing of ridge.
**
** Messages are MPI_Isend and MPI_Irecv of bytes, asked about by MPI_Test: MPI's collectives can
** neither be left again nor say which rank they wait for.
*/
#include <dlfcn.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>

#include "dist/group.h"

typedef struct slot {
  MPI_Request request;
  int64_t n;
  int32_t peer; /* -1: of a message that goes */
  int32_t _pad;
} slot;

typedef struct mpi {
  MPI_Comm world; /* ours alone: no message of others is taken for one of ours */
  slot *slots;
} mpi;

static rg_transport_host host;

static rg_status failed(const char *what, int code)
{
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;

  if (MPI_Error_string(code, text, &n) != MPI_SUCCESS) n = 0;
  return host.fail(RG_ENET, "dist: %s: %.*s", what, n, text);
}

/*
** Open MPI may yield in each MPI_Test that finds nothing (mpi_yield_when_idle; also where mpirun
** sees more ranks than slots): made for ranks that spin in its collectives.  Where each rank has a
** processor, a thread that yields to the one that computes is behind it for a whole slice of the
** scheduler, and how to wait is the caller's business, who sleeps: it yields only while it starts
** and ends.  Where ranks outnumber processors, those who wait take them from those who compute, and
** steps of eight ranks on two are longer without its yields.  Another MPI has no such function.
*/
static void yield_when_idle(bool on)
{
  void *found = dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
  void (*set)(bool) = (void (*)(bool))(uintptr_t)found;

  if (set != NULL) set(on);
}

/* Are there more ranks on this machine than processors that any of them may use?  here: they. */
static bool outnumber(MPI_Comm here, int ranks_here)
{
  cpu_set_t all;

  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof(all), &all) != 0) CPU_ZERO(&all); /* no word of this one */
  if (MPI_Allreduce(MPI_IN_PLACE, &all, (int)sizeof(all), MPI_BYTE, MPI_BOR, here) != MPI_SUCCESS) {
    return false;
  }
  return CPU_COUNT(&all) > 0 && ranks_here > CPU_COUNT(&all);
}

static rg_status mpi_send(void *self, int32_t at, int32_t peer, int32_t tag, const void *bytes,
                          int64_t n)
{
  mpi *m = self;
  slot *s = &m->slots[at];
  int code = MPI_Isend(bytes, (int)n, MPI_BYTE, peer, tag, m->world, &s->request);

  s->n = n;
  s->peer = -1;
  return code == MPI_SUCCESS ? RG_OK : failed("MPI_Isend", code);
}

static rg_status mpi_receive(void *self, int32_t at, int32_t peer, int32_t tag, void *bytes,
                             int64_t n)
{
  mpi *m = self;
  slot *s = &m->slots[at];
  int code = MPI_Irecv(bytes, (int)n, MPI_BYTE, peer, tag, m->world, &s->request);

  s->n = n;
  s->peer = peer;
  return code == MPI_SUCCESS ? RG_OK : failed("MPI_Irecv", code);
}

static rg_status mpi_test(void *self, int32_t at, bool *done)
{
  slot *s = &((mpi *)self)->slots[at];
  MPI_Status status;
  int flag = 0;
  int got = 0;
  int code = MPI_Test(&s->request, &flag, &status);

  if (code != MPI_SUCCESS) {
    return failed("MPI_Test", code);
  }
  *done = flag != 0;
  if (*done && s->peer >= 0) {
    code = MPI_Get_count(&status, MPI_BYTE, &got);
    if (code != MPI_SUCCESS || got != s->n) {
      return host.fail(RG_ENET, "dist: rank %d sent %d bytes where %lld were expected", s->peer,
                       got, (long long)s->n);
    }
  }
  return RG_OK;
}

static void mpi_end(void *self)
{
  mpi *m = self;

  yield_when_idle(true);
  MPI_Comm_free(&m->world);
  free(m->slots);
  free(m);
  MPI_Finalize();
}

/* crowded: they outnumber the processors of this machine */
static rg_status ranks(mpi *m, rg_transport *out, bool *crowded)
{
  MPI_Comm here;
  int rank = 0;
  int size = 0;
  int local_rank = 0;
  int local_size = 0;
  int code = MPI_Comm_dup(MPI_COMM_WORLD, &m->world);

  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(m->world, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(m->world, &rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(m->world, &size);
  if (code == MPI_SUCCESS) {
    code = MPI_Comm_split_type(m->world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
  }
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(here, &local_rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(here, &local_size);
  if (code == MPI_SUCCESS) {
    *crowded = outnumber(here, local_size);
    code = MPI_Comm_free(&here);
  }
  if (code != MPI_SUCCESS) {
    return failed("the group of all ranks", code);
  }
  *out = (rg_transport){ .name = "MPI",
                         .self = m,
                         .rank = rank,
                         .size = size,
                         .local_rank = local_rank,
                         .local_size = local_size,
                         .send = mpi_send,
                         .receive = mpi_receive,
                         .test = mpi_test,
                         .end = mpi_end };
  return RG_OK;
}

/* The one function that is exported; on the thread that will use all others. */
RG_API rg_transport_entry rg_mpi_transport;
rg_status rg_mpi_transport(const rg_transport_host *given, rg_transport *out)
{
  mpi *m = calloc(1, sizeof(*m));
  int provided = 0;
  bool crowded = false;
  int code;
  rg_status status;

  host = *given;
  if (m == NULL) {
    return host.fail(RG_ENOMEM, "dist: no memory for MPI");
  }
  if (host.abi != RG_TRANSPORT_ABI) {
    free(m);
    return host.fail(RG_ENET, "dist: the library for MPI is of another build of ridge");
  }
  code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED) {
    free(m);
    return host.fail(RG_ENET, "dist: MPI cannot be used on a thread (level %d)", provided);
  }
  status = ranks(m, out, &crowded);
  yield_when_idle(crowded);
  if (status == RG_OK) {
    m->slots = calloc((size_t)out->size * 2, sizeof(*m->slots));
    if (m->slots == NULL) status = host.fail(RG_ENOMEM, "dist: no memory for messages");
  }
  if (status != RG_OK) free(m);
  return status;
}
