-- SPDX-License-Identifier: MIT
-- A plan does what it was recorded to do: its steps run under the modes of the backend that were
-- set at the capture, whatever is set at a replay. On the CPU and on the simulated GPU.
local ffi = require 'ffi'
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local simulated = dofile 'tests/lua/simulated.lua'

local backend = ridge.backend
local PATHS = { 'own', 'onednn', 'openblas' }

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

-- The paths of the products that a function computes, without what follows a colon.
local function paths_of(f, ...)
  local list = {}
  for _, row in ipairs(ridge.profile(f, ...).operations) do
    if row.op == 'linear' or row.op == 'matmul' or row.op == 'scaled_linear' then
      list[#list + 1] = row.path:match '^[^:]*'
    end
  end
  table.sort(list) -- rows are in the order of their times
  return table.concat(list, ' ')
end

-- Plans of f that begin with what is set now, by how they were made; those of a graph have not run.
local function plans_of(f, x)
  local g = ridge.graph(f, x)
  local list = {
    { 'captured', ridge.capture(f, x) },
    { 'captured, with a call that is left out', ridge.capture(function(...)
      local _ = ridge.ones(3, 3) + 1
      return f(...)
    end, x) },
    { 'of a graph', g:plan() },
    { 'of a copy', g:copy():plan() },
    { 'of passes', g:optimize { 'common_subexpression_elimination', 'elementwise_fusion' }:plan() },
    { 'a clone', g:plan():clone() },
  }
  function list.later() -- of graphs from before, made now
    return { { 'of a graph, made later', g:plan() },
      { 'of a copy, made later', g:copy():plan() },
      { 'of a file', ridge.graph.parse(g:json()):plan() } }
  end
  return list
end

local function each(list, f)
  for _, pair in ipairs(list) do f(pair[2], pair[1]) end
end

describe('a plan on the CPU', function()
  local before
  before_each(function() before = backend.now() end)
  after_each(function()
    backend.forget_choices()
    backend.apply(before)
  end)

  local x, w = ridge.randn(40, 30), ridge.randn(30, 50)
  local function product(a) return a:matmul(w) end

  it('takes the path of products that was set at the capture', function()
    for _, path in ipairs(PATHS) do
      for _, other in ipairs(PATHS) do
        backend.set_gemm(path)
        local plans = plans_of(product, x)
        backend.set_gemm(other)
        local function is_kept(plan, what)
          what = ('%s, %s, then %s'):format(what, path, other)
          assert.equal(path, paths_of(plan.run, plan), what)
          assert.equal(path, paths_of(plan.run, plan, 2), what)
          assert.equal(path, plan:facts().modes.gemm, what)
        end
        each(plans, is_kept)
        each(plans.later(), function(plan, what)
          if what ~= 'of a file' then return is_kept(plan, what) end
          assert.equal(path, plan:facts().modes.gemm, what)
        end)
        assert.equal(other, paths_of(product, x), 'calls by themselves follow')
        assert.equal(other, paths_of(function() ridge.capture(product, x):run() end):match '%a+',
          'and new captures')
        assert.equal(other, backend.now().gemm)
      end
    end
  end)

  it('takes it in kernels that choose at each run', function()
    for _, dtype in ipairs { 'f8e4m3', 'i8' } do
      local a, b = ridge.randn(20, 64):to(dtype), ridge.randn(32, 64):to(dtype)
      local function scaled() return ridge.scaled_linear(a, b, 1, 1) end
      local seen = {}
      for _, path in ipairs(PATHS) do
        backend.set_gemm(path)
        local plan, wanted = ridge.capture(scaled), paths_of(scaled)
        seen[#seen + 1] = wanted
        for _, other in ipairs(PATHS) do
          backend.set_gemm(other)
          assert.equal(wanted, paths_of(plan.run, plan), path .. ', then ' .. other)
        end
      end
      local isa = backend.now().isa -- bytes are oneDNN's only where it adds them up exactly
      if dtype == 'f8e4m3' then
        assert.not_equal(seen[1], seen[3])
      elseif isa:find '512' or isa == 'amx' then
        assert.not_equal(seen[1], seen[2])
      end
    end
  end)

  it('runs each step under its own where they are several', function()
    local function f(a)
      backend.set_gemm 'own'
      local y = product(a)
      backend.set_gemm 'openblas'
      return y, product(a):tanh()
    end
    local plans = plans_of(f, x)
    backend.set_gemm 'onednn'
    local function both(plan, what)
      for _ = 1, 2 do
        assert.equal('openblas own', paths_of(plan.run, plan), what)
      end
      assert.is_nil(plan:facts().modes, what)
    end
    each(plans, both)
    local nodes = ridge.graph(f, x):nodes()
    assert.same({ 'own', 'openblas', 'openblas' },
      { nodes[1].modes.gemm, nodes[2].modes.gemm, nodes[3].modes.gemm })
    assert.equal(3, plans[1][2]:facts().n_steps, 'two products under two modes are two')
  end)

  it('knows of several also where the last step has those of the first', function()
    local plan = ridge.capture(function(a)
      local out = {}
      for i, path in ipairs { 'own', 'openblas', 'own' } do
        backend.set_gemm(path)
        out[i] = product(a * i)
      end
      return out
    end, x)
    backend.set_gemm 'onednn'
    assert.is_nil(plan:facts().modes)
    assert.equal('openblas own', paths_of(plan.run, plan))
  end)

  it('keeps a convolution and its batch norm apart where they are of several', function()
    local conv, norm = ridge.nn.Conv2d(3, 4, 3):eval(), ridge.nn.BatchNorm(4):eval()
    local image = ridge.randn(1, 3, 8, 8)
    for _, path in ipairs { 'own', 'openblas' } do
      local g = ridge.graph(ridge.no_grad, function(a)
        backend.set_gemm 'own'
        local y = conv(a)
        backend.set_gemm(path)
        return norm(y)
      end, image)
      local ops = {}
      for i, node in ipairs(g:optimize { 'batch_norm_folding' }:nodes()) do ops[i] = node.op end
      assert.equal(path ~= 'own', table.concat(ops, ' '):find 'batch_norm' ~= nil)
    end
  end)

  it("takes what was measured where 'auto' was set", function()
    backend.set_threads(1)
    backend.set_gemm 'auto'
    local plans, g = plans_of(product, x), ridge.graph(product, x)
    local standard = paths_of(product, x)
    local path = standard == 'openblas' and 'onednn' or 'openblas'
    ridge.autotune(product, x)
    backend.forget_choices()
    backend.apply { choices = ('40x30x50 f32 f32*f32=f32 t1 %s: %s'):format(backend.now().isa,
      path) }
    backend.set_gemm 'own'
    each(plans, function(plan, what)
      -- a capture has run, and keeps what it was made with
      local wanted = what == 'captured' and standard or path
      assert.equal(wanted, paths_of(plan.run, plan), what)
    end)
    backend.forget_choices()
    local plan = g:plan()
    assert.equal(1, #ridge.autotune(plan.run, plan), "it is 'auto' for the plan")
    backend.set_gemm 'auto'
    backend.forget_choices()
    backend.set_gemm 'own'
    local forced = ridge.graph(product, x):plan()
    backend.set_gemm 'auto'
    assert.equal(0, #ridge.autotune(forced.run, forced), 'and forced for this one')
    assert.equal('own', paths_of(forced.run, forced))
  end)

  it('gives the same bits each time, whether that was asked for or not', function()
    local modes = C.rg_device_modes_now()
    local plan = ridge.capture(product, x)
    local wanted = plan:run():clone()
    modes.deterministic = 1
    local ok, y = pcall(plan.run, plan)
    modes.deterministic = 0
    assert.is_true(ok and y:equal(wanted))
  end)

  it('tells its modes, and so do nodes, in print and files', function()
    local modes = C.rg_device_modes_now()
    modes.tf32, modes.deterministic, modes.autotune = 1, 1, 2
    backend.set_gemm 'own'
    local ok, g = pcall(ridge.graph, product, x)
    modes.tf32, modes.deterministic, modes.autotune = 0, 0, 1
    assert(ok, g)
    local wanted = { vendor = true, autotune = true, autotune_cudnn = true, deterministic = true,
      tf32 = true, gemm = 'own' }
    backend.set_gemm 'openblas'
    assert.same(wanted, g:nodes()[1].modes)
    assert.same(wanted, g:plan():facts().modes)
    assert.matches('; autotune 2  deterministic  tf32  gemm own', tostring(g), 1, true)
    assert.matches('"gemm": "own"', g:json(), 1, true)
    local loaded = ridge.graph.parse(g:json())
    assert.is_true(loaded:same(g))
    assert.same(wanted, loaded:nodes()[1].modes)
    local other = ridge.graph(product, x)
    assert.matches('run under other modes', select(2, g:same(other)))
    local made = g:insert('relu', g:nodes()[1].outputs, { after = g:nodes()[1] })
    assert.same(wanted, made.modes, 'what is inserted runs as what it stands beside')
  end)
end)

describe('a plan on a device', function()
  if not simulated.open() then
    return it('is nothing here', function() pending 'no nvcc: no simulated device was built' end)
  end
  ffi.C.setenv('RIDGE_CUDNN', 'simulated', 1)
  ffi.C.setenv('RG_SIM_BLAS_FAST', '4', 1) -- what is timed is another algorithm than the first
  local counted = dofile 'tests/lua/counted.lua'
  local GPU = 'sim:0'
  local modes = C.rg_device_modes_now()

  local function reset()
    modes.vendor, modes.autotune, modes.deterministic, modes.tf32 = 1, 1, 0, 0
  end
  after_each(reset)

  local function set(given)
    reset()
    for name, value in pairs(given) do modes[name] = value end
  end

  local SETTINGS = { {}, { vendor = 0 }, { autotune = 0 }, { deterministic = 1 }, { tf32 = 1 },
    { deterministic = 1, tf32 = 1 } }

  -- What a product was given to: the library's algorithm and type of sums, or nothing of it.
  local function way_of(f, ...)
    local before = counted.now().products
    f(...)
    if counted.now().products == before then return 'own' end
    local last = counted.last()
    return ('algorithm %d, sums %d'):format(last.algo, last.compute)
  end

  it('runs under the modes that were set at the capture', function()
    local rows, seen = 5, {}
    for i, given in ipairs(SETTINGS) do
      for j = i - 1, i + 1 do -- the same, and two others
        local other = SETTINGS[j % #SETTINGS + 1]
        rows = rows + 1 -- each case has a shape of its own, which was not timed before
        local x, w = ridge.randn(rows, 12):to(GPU), ridge.randn(12, 8):to(GPU)
        local function product(a) return a:matmul(w) end
        set(given)
        local wanted
        local way = way_of(function() wanted = product(x) end)
        local plans = plans_of(product, x)
        seen[way] = true
        set(other)
        local refused = other.deterministic == 1 and not given.deterministic and given.vendor ~= 0
        local function is_kept(plan, what)
          what = ('%s, %d, then %d'):format(what, i, j)
          if refused then
            assert.matches('deterministic is on, and step %d+ of %d+ %(matmul on sim:0%) was '
              .. 'captured with it off', failure(plan.run, plan), what)
            set(given)
          end
          if not what:find '^captured,' then -- those of graphs run for the first time
            local first = way_of(plan.run, plan)
            assert.equal(what:find '^captured' and 'own' or way, first, what)
          end
          for _ = 1, 3 do assert.is_true(plan:run():equal(wanted), what) end
          assert.is_true(plan:facts().device_graph, what)
          set(other)
        end
        each(plans, is_kept)
        each(plans.later(), function(plan, what)
          if what ~= 'of a file' then is_kept(plan, what) end
        end)
      end
    end
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    assert.equal(#SETTINGS, n, 'each setting goes another way')
  end)

  it('is refused where the same bits are wanted, and nothing else is', function()
    local layer = ridge.nn.Linear(6, 4):to(GPU)
    local net = ridge.nn.Sequential(layer, ridge.nn.ReLU())
    local x = ridge.randn(3, 6):to(GPU)
    local image, filter = ridge.randn(1, 3, 6, 6):to(GPU), ridge.randn(4, 3, 3, 3):to(GPU)
    local q = ridge.randn(1, 2, 8, 16):to(GPU):to 'bf16'
    local varies = {
      linear = function() return net(x) end,
      conv2d = function() return image:conv2d(filter) end,
      attention = function() return ridge.nn.attention(q, q, q) end,
    }
    for op, f in pairs(varies) do
      local plan = ridge.capture(ridge.inference, f)
      modes.deterministic = 1
      local said = failure(plan.run, plan)
      assert.matches(op, said)
      assert.matches('capture the plan again, or turn it off', said)
      ridge.capture(ridge.inference, f):run(2)
      modes.deterministic = 0
      plan:run(2)
    end
    local plan = ridge.capture(ridge.inference, varies.linear)
    modes.deterministic = 1
    assert.matches('%(linear, 1 on sim:0%)', failure(plan.run, plan), 'it names the module')
    modes.deterministic = 0
    plan = ridge.capture(ridge.inference, function()
      return layer(x * 2):tanh(), image:conv2d(filter)
    end)
    modes.deterministic = 1
    assert.matches('step 2 of %d %(linear', failure(plan.run, plan), 'and the first of several')
    for _, f in ipairs { function() return (x * 2):tanh():sum() end,
      function() return x:softmax() end } do
      modes.deterministic = 0
      local other = ridge.capture(f)
      modes.deterministic = 1
      other:run(2)
    end
  end)

  it('is refused wherever a library computed one of its steps', function()
    local x = ridge.randn(6, 16):to(GPU):requires_grad_()
    local image = ridge.randn(1, 3, 6, 6):to(GPU):requires_grad_()
    local filter = ridge.randn(4, 3, 3, 3):to(GPU):requires_grad_()
    local q = ridge.randn(1, 2, 8, 16):to(GPU):to('bf16'):requires_grad_()
    local eight = ridge.randn(16, 16):to 'f8e4m3':to(GPU)
    local function step(f, ...)
      local args = { ... }
      return function() return ridge.grad(f(unpack(args)):sum(), args[1]) end
    end
    local cases = {
      matmul = function() return x:matmul(x:t()) end,
      linear = step(ridge.nn.Linear(16, 8):to(GPU), x),
      lowrank = step(ridge.nn.LowRankLinear(16, 8, { rank = 4 }):to(GPU), x),
      sketched = step(ridge.nn.SKLinear(16, 8, { num_terms = 1, low_rank = 2 }):to(GPU), x),
      scaled = function() return ridge.scaled_linear(eight, eight, 1, 1) end,
      convolution = step(function(a) return a:conv2d(filter) end, image),
      attention = step(function(a) return ridge.nn.attention(a, a, a) end, q),
    }
    modes.autotune = 2 -- else cuDNN plans what comes again
    for name, f in pairs(cases) do
      f() -- what a capture may not begin
      local plan
      local did = counted.during(function() plan = ridge.capture(f) end)
      assert.is_true(did.products + did.dnn > 0, name .. ' is computed by a library')
      modes.deterministic = 1
      assert.matches('deterministic is on', failure(plan.run, plan), name)
      modes.deterministic = 0
    end
  end)

  it('that promised the same bits keeps its promise', function()
    local x, w = ridge.randn(7, 12):to(GPU), ridge.randn(12, 8):to(GPU)
    local function product(a) return a:matmul(w) end
    modes.deterministic = 1
    local g = ridge.graph(product, x)
    local wanted
    local way = way_of(function() wanted = product(x) end)
    modes.deterministic = 0
    local loose = way_of(product, x)
    assert.not_equal(way, loose)
    local plan = g:plan()
    assert.equal(way, way_of(plan.run, plan))
    assert.is_true(plan:run():equal(wanted))
  end)
end)
