-- SPDX-License-Identifier: MIT
-- Signals that come upon a product: handlers leave the heap alone.  oneDNN's product of f32 by AVX
-- points the stack pointer into it; where it has other instructions these tests see less.

local function run(script, threads)
  local path = os.tmpname()
  local file = assert(io.open(path, 'w'))
  file:write(script)
  file:close()
  local pipe = io.popen(('./ridge --threads %d %s 2>&1; echo "status $?"'):format(threads, path))
  local text = pipe:read '*a'
  pipe:close()
  os.remove(path)
  return text
end

-- A second of products of 50 x 784 and 784 x 12 that are made of a workspace, and freed.
local PRODUCTS = [[
local ridge = require 'ridge'
ridge.seed(1)
local a, b = ridge.randn(50, 784), ridge.randn(784, 12)
local want = a:matmul(b)
local function products()
  local from, same = os.clock(), true
  repeat
    for _ = 1, 20 do
      ridge.scope(function() same = same and a:matmul(b):eq(want):all():item() == 1 end)
    end
  until os.clock() - from > 1
  return same
end
]]

describe('a signal that comes upon a product', function()
  for threads = 1, 2 do
    it('is a sample of jit.profile: ' .. threads .. ' threads', function()
      local text = run(PRODUCTS .. [[
        local profile, ticks = require 'jit.profile', 0
        profile.start('i1', function(_, n) ticks = ticks + n end)
        local same = products()
        profile.stop()
        local seen = ticks
        products()
        print('same', same, 'ticks', seen > 50, 'ended', ticks == seen)
      ]], threads)
      assert.equal('same\ttrue\tticks\ttrue\tended\ttrue\nstatus 0\n', text)
    end)
  end

  it('is one of somebody else, whose handler was there first', function()
    local text = run([[
      local ffi = require 'ffi'
      ffi.cdef 'int getpid(void); int ualarm(unsigned, unsigned); void *signal(int, void *);'
      ffi.C.signal(14, ffi.cast('void *', ffi.C.getpid)) -- SIGALRM
    ]] .. PRODUCTS .. [[
      ffi.C.ualarm(500, 500)
      local same = products()
      ffi.C.ualarm(0, 0)
      print('same', same)
    ]], 1)
    assert.equal('same\ttrue\nstatus 0\n', text)
  end)
end)

describe("the program's handlers", function()
  -- SA_ONSTACK of Linux on x86-64 and ARM; struct sigaction of the C library: handler, mask, flags
  local FLAGS = [[
    local ffi = require 'ffi'
    ffi.cdef 'struct flags { void *handler; char mask[128]; int flags; void *restorer; };'
    ffi.cdef 'int sigaction(int, const struct flags *, struct flags *);'
    local function on_stack(number)
      local now = ffi.new 'struct flags'
      assert(ffi.C.sigaction(number, nil, now) == 0)
      return now.handler ~= nil and ffi.cast('unsigned long', now.handler) > 1
        and require('bit').band(now.flags, 0x08000000) ~= 0
    end
  ]]

  it('run on an alternate stack: Ctrl-C, before it came and after', function()
    local text = run(FLAGS .. [[
      local before = on_stack(2)
      require('ridge.host').interrupt() -- the next press has a handler of its own
      print(before, on_stack(2))
    ]], 1)
    assert.equal('true\ttrue\nstatus 130\n', (text:gsub('\nstopping.-at once\n', '')))
  end)

  it("run on an alternate stack: samples of a profile and of jit.profile", function()
    local text = run(FLAGS .. [[
      local ridge = require 'ridge'
      local seen = {}
      ridge.profile(function() seen[1] = on_stack(27) end, { lines = true })
      require('jit.profile').start('i10', function() end)
      seen[2] = on_stack(27)
      require('jit.profile').stop()
      seen[3] = on_stack(27)
      print(unpack(seen))
    ]], 1)
    assert.equal('true\ttrue\tfalse\nstatus 0\n', text)
  end)
end)
