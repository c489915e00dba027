-- SPDX-License-Identifier: MIT
-- dnn_due_spec: when a plan of cuDNN is made, how many, and what of it is kept for the next
-- process, with the stand-in for cuDNN in the simulated GPU.
--
--   RIDGE_GPU=build/libridge_gpusim.so RIDGE_TEST_DEVICE=1 RIDGE_CUDNN=simulated

local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local counted = dofile 'tests/lua/counted.lua'

local GPU = 'sim:0'

ffi.cdef [[
  int64_t rgsim_dnn_live(void);
  int setenv(const char *name, const char *value, int overwrite);
  int unsetenv(const char *name);
]]

local size = 4 -- each test has shapes of its own
local function image()
  size = size + 1
  local x, w = ridge.randn(2, 3, size, 7):to(GPU), ridge.randn(4, 3, 3, 3):to(GPU)
  return function() return x:conv2d(w) end
end

local function heads()
  size = size + 1
  local q = ridge.randn(2, 2, size, 16):to(GPU):to 'bf16'
  return function() return ridge.nn.attention(q, q, q) end
end

local function read(path)
  local file = io.open(path)
  local text = file and file:read '*a'
  if file then file:close() end
  return text
end

describe('a plan of cuDNN', function()
  local modes = C.rg_device_modes_now()

  after_each(function()
    modes.autotune, modes.deterministic, modes.tf32 = 1, 0, 0
    ffi.C.unsetenv 'RG_SIM_DNN_ENGINES'
    ffi.C.unsetenv 'RG_SIM_DNN_NOTE'
    ffi.C.unsetenv 'RG_SIM_DNN_FAILS'
  end)

  for name, make in pairs { convolution = image, attention = heads } do
    it('is made when a shape comes again, and once: ' .. name, function()
      local f = make()
      for call, wanted in ipairs { { 0, 0 }, { 1, 1 }, { 0, 1 }, { 0, 1 } } do
        local did = counted.during(f)
        assert.same(wanted, { did.plans, did.dnn }, 'call ' .. call)
      end
    end)

    it('is made at once in a plan, which will be replayed: ' .. name, function()
      local plan
      local did = counted.during(function() plan = ridge.capture(make()) end)
      assert.same({ 1, 1 }, { did.plans, did.dnn })
      plan:run(3)
      assert.is_true(plan:facts().device_graph)
      assert.equal(0, counted.during(function() plan:run(2) end).launches)
    end)

    it('is made at once where bits must stay the same: ' .. name, function()
      modes.deterministic = 1
      local f = make()
      for call, wanted in ipairs { { 1, 1 }, { 0, 1 } } do
        local did = counted.during(f)
        assert.same(wanted, { did.plans, did.dnn }, 'call ' .. call)
      end
    end)

    it('is made of each proposal where they are to be timed: ' .. name, function()
      modes.autotune = 2
      local f = make()
      assert.equal(2, counted.during(f).plans)
      assert.same({ 0, 1 }, { counted.during(f).plans, counted.during(f).dnn })
    end)
  end

  -- A convolution has eight candidates, one with something behind it three, attention two: some
  -- take cuDNN a second to compile.
  it('is made of so many proposals at most', function()
    ffi.C.setenv('RG_SIM_DNN_ENGINES', '12', 1)
    modes.autotune = 2
    local found = {}
    local function plans(f) found[#found + 1] = counted.during(f).plans end
    for _, nhwc in ipairs { false, true } do
      local w, b = ridge.randn(4, 3, 2, 2):to(GPU), ridge.randn(4):to(GPU)
      local x = ridge.randn(1, 3, 5, 9):to(GPU)
      if nhwc then x = x:permute(1, 3, 4, 2):contiguous():permute(1, 4, 2, 3) end
      plans(function() x:conv2d(w) end)
      plans(function() x:conv2d(w, { bias = b }) end)
    end
    plans(heads())
    -- with channels first the stand-in takes nothing behind a convolution: the first one serves all
    assert.same({ 8, 0, 8, 3, 2 }, found)
  end)

  it('is the next one where a proposal does not run, which leaves no error to it', function()
    ffi.C.setenv('RG_SIM_DNN_FAILS', '0', 1)
    modes.autotune = 2
    for _, make in ipairs { image, heads } do
      local f = make()
      local did, first = counted.during(f)
      assert.equal(2, did.plans)
      assert.equal(5, did.dnn) -- of the second: one, three that are timed, and the call's
      local again, second = counted.during(f)
      assert.same({ 0, 1 }, { again.plans, again.dnn })
      assert.equal(0, (first:to 'f32' - second:to 'f32'):abs():max():item())
    end
  end)

  it('is another one under other rules', function()
    local f, found = image(), {}
    for i, rule in ipairs { { 1, 0 }, { 0, 0 }, { 0, 0 }, { 0, 1 }, { 0, 1 }, { 1, 0 }, { 0, 0 },
      { 1, 1 } } do
      modes.deterministic, modes.tf32 = rule[1], rule[2]
      found[i] = counted.during(f).plans
    end
    -- of one that came before, under whatever rules, a plan is made at once
    assert.same({ 1, 0, 1, 1, 0, 0, 0, 1 }, found)
  end)

  it('is all that a call leaves behind', function()
    local plugin = ffi.load 'build/libridge_gpusim.so'
    for _, make in ipairs { image, heads } do
      local f, live = make(), {}
      for call = 1, 4 do
        local before = plugin.rgsim_dnn_live()
        f()
        live[call] = tonumber(plugin.rgsim_dnn_live() - before)
      end
      assert.same({ 0, 0, 0 }, { live[1], live[3], live[4] })
      assert.is_true(live[2] > 5) -- the graph, the engines it was offered, the plan
    end
    ffi.C.setenv('RG_SIM_DNN_NOTE', '2', 1) -- no engine may run: nothing is kept
    for _, make in ipairs { image, heads } do
      local f, before = make(), plugin.rgsim_dnn_live()
      for _ = 1, 3 do f() end
      assert.equal(before, plugin.rgsim_dnn_live())
    end
  end)

  -- The stand-in fuses what follows where channels are contiguous, and nowhere else.
  it('is the same for a convolution whose bias is added behind it as for one without', function()
    modes.deterministic = 1
    local x, w = ridge.randn(2, 3, 13, 13):to(GPU), ridge.randn(4, 3, 3, 3):to(GPU)
    local b = ridge.randn(4):to(GPU)
    local function plans(opts) return counted.during(function() x:conv2d(w, opts) end).plans end
    assert.equal(1, plans { bias = b })
    assert.equal(0, plans { bias = b })
    assert.equal(0, plans {})
    assert.equal(1, plans { padding = 1 }) -- and each other one has its own
  end)

  -- A process that calls a convolution n times in a mode: plans that it made, and what cuDNN ran.
  local function plans(cache, mode, n, env)
    local code = ([[local ridge = require 'ridge'
      require('ridge.ffi.lib').rg_device_open(1)
      local counted = dofile 'tests/lua/counted.lua'
      require('ridge.ffi.lib').rg_device_modes_now().autotune = %d
      local x, w = ridge.ones(2, 3, 9, 9):to 'sim:0', ridge.ones(4, 3, 3, 3):to 'sim:0'
      for _ = 1, %d do x:conv2d(w) end
      x:to 'cpu'
      print(counted.now().plans, counted.now().dnn)]]):format(mode, n)
    local pipe = io.popen(("%s XDG_CACHE_HOME=%s ./ridge -e '%s'"):format(env or '', cache,
      code:gsub("'", "'\\''")))
    local text = pipe:read '*a'
    pipe:close()
    return text
  end

  it('is known to the next process by the one that won', function()
    local folder = os.tmpname()
    os.remove(folder)
    local path = folder .. '/ridge/cudnn.txt'
    assert.equal('0\t0\n', plans(folder, 1, 1)) -- nothing is kept of what was not timed
    assert.equal('1\t1\n', plans(folder, 1, 2))
    assert.is_nil(read(path))
    assert.matches('^2\t', plans(folder, 2, 1))
    local kept = read(path)
    assert.matches('^%x+ [01] %x+\n$', kept)
    assert.equal('1\t1\n', plans(folder, 1, 1)) -- at once, and only the winner
    assert.equal('1\t1\n', plans(folder, 2, 1)) -- and it is not timed again
    assert.equal(kept, read(path))
    -- of another kind of GPU it says nothing
    assert.equal('0\t0\n', plans(folder, 1, 1, 'RG_SIM_CAPABILITY=80'))
    assert.equal('1\t1\n', plans(folder, 1, 2, 'RG_SIM_CAPABILITY=80'))
    -- a line that is not whole is none
    local job, number, check = kept:match '(%x+) (%d) (%x+)'
    for _, wrong in ipairs { ('%s %d %s\n'):format(job, 1 - number, check), kept:sub(1, 20),
      ('%s 9 %s\n'):format(job, check), 'nonsense\n' } do
      local file = assert(io.open(path, 'w'))
      file:write(wrong)
      file:close()
      assert.equal('0\t0\n', plans(folder, 1, 1), wrong)
    end
    os.execute('rm -r ' .. folder)
  end)
end)
