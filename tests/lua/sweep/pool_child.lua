-- SPDX-License-Identifier: MIT
-- A sweep by several workers, to be run by tests: luajit pool_child.lua DB [name=value ...].
-- Points called by `crash`, `hang`, `oom`, `kill` or `fail` do just that.

local ffi = require 'ffi'
local lab = dofile 'tests/lua/sweep/cheap_lab.lua'.new()
local child = require 'ridge.sweep.child'
local sweep = require 'ridge.sweep'

ffi.cdef 'int usleep(unsigned); int getpid(void); int raise(int);'

local given = { points = 40, workers = 4, us = 1000 }
for i = 2, #arg do
  local name, value = arg[i]:match '^(%w+)=(.*)$'
  given[name] = tonumber(value) or value
end

local real = require 'ridge.sweep.lab'
lab.command = child.own_words
lab.crash_note = real.crash_note
if given.lease then lab.lease = real.lease end
-- how many time at once: each holds a file while it does
local block = lab.block
lab.block = function(points, ...)
  if given.alone then
    local path = given.alone .. '/' .. ffi.C.getpid()
    assert(io.open(path, 'w')):close()
    ffi.C.usleep(given.us)
    local pipe = io.popen('ls ' .. given.alone .. ' | wc -l')
    if tonumber(pipe:read '*a') > 1 then error 'two of them time at once' end
    pipe:close()
    os.remove(path)
  end
  return block(points, ...)
end

-- the process that started the others fails while one of them is at work
if given.parent and not os.getenv 'RIDGE_PADDING' then
  lab.stopping = function()
    local file = io.open(arg[1] .. '.hangs')
    if file then
      file:close()
      error('the parent failed', 0)
    end
    return false
  end
end

if os.getenv 'RIDGE_PADDING' then -- in a worker
  if given.broken then error 'this worker is broken' end
  if given.absent then os.exit(0) end
end

local sw = sweep 'pool' {
  space = { k = sweep.range(1, given.points), kind = { 'a', 'b' } },
  timeout = given.timeout,
  tries = { lost = given.lost },
  monotone = given.monotone and { oom = { 'k' }, timeout = { 'k' } } or nil,
  protocol = given.passes and { passes = given.passes, max_passes = given.passes } or nil,
  measure = function(p, _, m)
    ffi.C.usleep(given.us)
    if given.log then
      local file = assert(io.open(given.log, 'a'))
      file:write(('%d %d\n'):format(ffi.C.getpid(), m.pass))
      file:close()
    end
    if given.hold and p.kind == 'a' then -- another process shares the machine from here on
      os.execute(([[m=%s.held; flock -s "$RIDGE_LOCKS/cpu" sh -c "touch $m; exec sleep %g" &
        while ! test -e $m; do sleep 0.01; done]]):format(arg[1], given.hold))
    end
    if p.k == given.crash then
      print('last words of', p.k)
      ffi.cast('int *', 8)[0] = 1
    end
    if p.k == given.hang then
      assert(io.open(arg[1] .. '.hangs', 'w')):close()
      ffi.C.usleep(1e8)
    end
    if p.k == given.leave and not io.open(arg[1] .. '.left') then
      assert(io.open(arg[1] .. '.left', 'w')):close()
      os.exit(130) -- as after Ctrl-C, which this process saw first
    end
    if p.k == given.kill then ffi.C.raise(9) end
    if p.k == given.oom then error { code = 'ENOMEM', message = 'out of memory' } end
    if p.k == given.fail then
      print 'printed before it failed'
      error 'bang'
    end
    m:time('fwd', function() return p.k * 100 + (p.kind == 'b' and 50 or 0) end)
    m:metric('pid', ffi.C.getpid())
    m:metric('padding', #(os.getenv 'RIDGE_PADDING' or ''))
  end,
}

local summary = sw:run { db = arg[1], lab = lab, progress = given.progress or false,
  workers = given.workers, isolate = given.isolate, timing = given.timing, budget = given.budget,
  shard = given.shard }
print(('%d of %d, %d failed%s'):format(summary.counts.ok or 0, summary.counts.total,
  summary.failed, summary.stopped and ', ' .. summary.stopped or ''))
