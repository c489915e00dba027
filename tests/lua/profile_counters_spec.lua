-- SPDX-License-Identifier: MIT
-- Counters of a profile: what the kernel lets be counted is, and what it refuses is told with the
-- reason. It refuses for real: by a filter of calls, and by a limit of files.

local ffi = require 'ffi'
local ridge = require 'ridge'

local HARDWARE = { 'cycles', 'instructions', 'cache_misses', 'branch_misses' }
local KERNEL = { 'page_faults', 'context_switches', 'migrations' }

local function output(code)
  local pipe = assert(io.popen(("./ridge -e '%s' 2>&1; echo \"status $?\""):format(code)))
  local text = pipe:read '*a'
  pipe:close()
  return text
end

-- A child in which each perf_event_open fails with an errno, by a filter of the kernel's.
local FILTER = [[
  local ffi, ridge = require "ffi", require "ridge"
  ffi.cdef [=[
    struct filter_line { uint16_t code; uint8_t yes, no; uint32_t k; };
    struct filter { unsigned short n; struct filter_line *lines; };
    int prctl(int what, unsigned long a, void *b, unsigned long c, unsigned long d);
  ]=]
  local number = ffi.arch == "x64" and 298 or 241
  local lines = ffi.new("struct filter_line[4]", {
    { 0x20, 0, 0, 0 }, { 0x15, 0, 1, number }, { 0x06, 0, 0, 0x50000 + ERRNO },
    { 0x06, 0, 0, 0x7fff0000 } })
  local filter = ffi.new("struct filter", { 4, lines })
  assert(ffi.C.prctl(38, 1, nil, 0, 0) == 0)
  assert(ffi.C.prctl(22, 2, filter, 0, 0) == 0)
]]

describe('counters', function()
  it('are there or not, each with its reason', function()
    local p = ridge.profile(function() ridge.ones(99, 99):exp() end, { counters = true })
    for _, list in ipairs { HARDWARE, KERNEL } do
      for _, name in ipairs(list) do
        assert.is_true((p.counters[name] == nil) ~= (p.unavailable[name] == nil), name)
        if p.counters[name] then
          assert.is_true(p.counters[name] >= 0 and p.counters.shares[name] > 0)
        else
          assert.is_true(#p.unavailable[name] > 0)
          assert.matches(name, p:text())
        end
      end
    end
    if p.counters.cycles and p.counters.instructions then
      assert.near(p.counters.instructions / p.counters.cycles, p.counters.ipc, 1e-9)
    else
      assert.is_nil(p.counters.ipc)
    end
    assert.is_nil(ridge.profile(function() end).counters) -- nobody asked
  end)

  it('of GPUs are unavailable, with the reason', function()
    local p = ridge.profile(function() end, { counters = true })
    local ok, why = ridge.available 'cuda'
    assert.is_true(#p.unavailable.cupti > 0)
    if not ok then assert.equal(why, p.unavailable.cupti) end
    assert.matches('cupti: unavailable: ', p:text(), 1, true)
  end)

  it('count what happens in the steps that count, and nothing else', function()
    ffi.cdef 'void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);'
    local bytes, page = 16 * 2 ^ 20, 4096
    local function touch() -- pages that nobody had
      local at = ffi.C.mmap(nil, bytes, 3, 0x22, -1, 0)
      local memory = ffi.cast('char *', at)
      for i = 0, bytes - 1, page do memory[i] = 1 end
      ffi.C.munmap(at, bytes)
    end
    local function faults(wait)
      local p = ridge.profile(function(_, i) if i == 1 then touch() end end,
        { counters = true, num_steps = 2, wait = wait, active = 1 })
      return p.counters.page_faults, p.unavailable.page_faults
    end
    local counted, why = faults(0)
    if not counted then return assert.is_true(#why > 0) end -- the kernel lets nobody count
    assert.is_true(counted >= bytes / page, counted)
    assert.is_true(faults(1) < bytes / page)
  end)

  it('leave no file open', function()
    local function files()
      local own = assert(io.open '/proc/self/stat')
      local pipe = io.popen(('ls /proc/%d/fd | wc -l'):format(own:read '*n'))
      local n = pipe:read '*n'
      own:close()
      pipe:close()
      return n
    end
    ridge.profile(function() end, { counters = true })
    collectgarbage()
    local before = files()
    for _ = 1, 3 do
      ridge.profile(function() end, { counters = true })
      pcall(ridge.profile, function() error 'on purpose' end, { counters = true })
    end
    collectgarbage()
    assert.is_true(files() < before + 3) -- each has some: other parts may open one late
  end)

  it('of one within another are each one\'s', function()
    local inner
    local outer = ridge.profile(function()
      inner = ridge.profile(function() ridge.ones(9):exp() end, { counters = true })
    end, { counters = true })
    if not outer.counters.page_faults then return end -- the kernel lets nobody count
    assert.is_true(outer.counters.page_faults >= inner.counters.page_faults)
  end)

  it('of one that ends before its steps count nothing', function()
    local p = ridge.profile(function(q) q:step() end, { counters = true, wait = 5, active = 1 })
    assert.matches('0 of 1 step', p:text())
    assert.is_true((p.counters.page_faults or 0) == 0)
  end)

  it('of one that raised are kept', function()
    pcall(ridge.profile, function() error 'on purpose' end, { counters = true })
    local p = ridge.last_profile()
    assert.matches('on purpose', p.failed)
    assert.is_true((p.counters.page_faults or p.unavailable.page_faults) ~= nil)
  end)

  for errno, reason in pairs { [1] = 'it is not permitted %(Operation not permitted',
      [13] = 'it is not permitted %(Permission denied', [38] = 'the system has no perf_event_open',
      [2] = 'the processor shows none here', [22] = 'Invalid argument' } do
    it('that the system refuses by ' .. errno .. ' are unavailable', function()
      local text = output(FILTER:gsub('ERRNO', tostring(errno)) .. [[
        local p = ridge.profile(function() ridge.ones(9):exp() end, { counters = true })
        print(#p.operations, p.counters.cycles, p.counters.page_faults)
        print(p.unavailable.cycles)
        print(p.unavailable.page_faults)
        print(p:text():match "%(cycles, [%l_, ]*: unavailable")]])
      assert.matches('^2\tnil\tnil\n' .. reason .. '[^\n]*\n' .. reason, text)
      assert.matches('(cycles, instructions, cache_misses, branch_misses, page_faults, '
        .. 'context_switches, migrations: unavailable\nstatus 0\n', text, 1, true)
    end)
  end

  it('for which there are no files are unavailable', function()
    local text = output [[
      local ffi, ridge = require "ffi", require "ridge"
      ffi.cdef "int setrlimit(int what, const unsigned long *limits); int dup(int file);"
      ridge.profile(function() ridge.ones(9):exp() end, { counters = true })
      local n = ffi.C.dup(0) -- the lowest that is free
      assert(ffi.C.setrlimit(7, ffi.new("unsigned long[2]", n + 1, n + 1)) == 0) -- RLIMIT_NOFILE
      local p = ridge.profile(function() ridge.ones(9):exp() end, { counters = true })
      print(#p.operations, p.unavailable.migrations)]]
    assert.equal('2\teach thread takes an open file, and there are too many (Too many open files)\n'
      .. 'status 0\n', text)
  end)

  it('are asked for with true or false', function()
    local ok, err = pcall(ridge.profile, function() end, { counters = 'cycles' })
    assert.is_false(ok)
    assert.matches('counters', tostring(err))
  end)
end)

describe('counters of operations', function()
  pcall(ffi.cdef, 'void *mmap(void *, size_t, int, int, int, long); int munmap(void *, size_t);')

  it('have what happened in their calls, and not what happened between', function()
    local big = 2 ^ 21
    local x = ridge.ones(4, 4)
    local p = ridge.profile(function()
      for _ = 1, 5 do x:exp() end
      local at = ffi.C.mmap(nil, 8 * big, 3, 0x22, -1, 0) -- pages that nobody had, in no operation
      local memory = ffi.cast('char *', at)
      for i = 0, 8 * big - 1, 4096 do memory[i] = 1 end
      ffi.C.munmap(at, 8 * big)
      x:matmul(x)
      x:sum()
      x:clone()
    end, { operation_counters = true, lines = false })
    local by = {}
    for _, row in ipairs(p.counters.operations) do by[row.op] = row end
    assert.equal(5, by.exp.calls)
    assert.equal(1, by.matmul.calls)
    local classes = {}
    for _, row in ipairs(p.counters.classes) do classes[row.class] = row end
    assert.equal('products', by.matmul.class)
    assert.equal(5, classes.elementwise.calls)
    assert.equal(1, classes.products.ops)
    assert.equal('sums and losses', by.sum.class)
    assert.equal('copies and fills', by.copy.class)
    if p.counters.page_faults then
      assert.is_true(by.exp.page_faults >= 0)
      -- of 4096 pages, or of 8 huge ones, none was in an operation
      assert.is_true(by.exp.page_faults + by.matmul.page_faults < p.counters.page_faults)
      assert.matches('class of operation', p:text())
    else
      assert.is_nil(by.exp.page_faults)
    end
    assert.is_nil(ridge.profile(function() x:exp() end, { counters = true }).counters.operations)
  end)

  it('of calls that fail, and of steps that do not count, are none', function()
    local x = ridge.ones(3)
    local p = ridge.profile(function(q)
      for i = 1, 4 do
        pcall(x.matmul, x, ridge.ones(4))
        x:exp()
        if i == 3 then x:tanh() end
        q:step()
      end
    end, { operation_counters = true, wait = 2, active = 2, lines = false })
    local by = {}
    for _, row in ipairs(p.counters.operations) do by[row.op] = row.calls end
    assert.equal(2, by.exp)
    assert.equal(1, by.tanh)
    assert.is_nil(by.matmul)
  end)

  it('of a profile within another are its own, and the outer one goes on', function()
    local x, inner = ridge.ones(3), nil
    local outer = ridge.profile(function()
      x:exp()
      inner = ridge.profile(function() x:tanh() end, { operation_counters = true, lines = false })
      x:exp()
    end, { operation_counters = true, lines = false })
    assert.equal('tanh', inner.counters.operations[1].op)
    assert.equal(1, #inner.counters.operations)
    assert.equal('exp', outer.counters.operations[1].op)
    assert.equal(2, outer.counters.operations[1].calls)
  end)
end)
