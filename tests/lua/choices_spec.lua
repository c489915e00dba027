-- SPDX-License-Identifier: MIT
--- Paths of products that are measured: what is measured and when, that it is obeyed, in fresh
--- processes too, and what ends it.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local choices = require 'ridge.choices'

local backend = ridge.backend

-- The path of the first product that a function computes.
local function path_of(f, ...)
  for _, row in ipairs(ridge.profile(f, ...).operations) do
    if row.op == 'linear' or row.op == 'matmul' then return row.path end
  end
end

describe('a measured path', function()
  local before

  before_each(function()
    before = backend.now()
    backend.set_threads(1)
  end)

  after_each(function()
    backend.forget_choices()
    backend.apply(before)
    C.rg_alloc_fail_at(0)
  end)

  local function net() return ridge.nn.Linear(48, 33, { seed = 1 }):eval() end

  it('is not remembered where it is only measured', function()
    local layer, x = net(), ridge.randn(20, 48)
    local known = tonumber(C.rg_choices())
    local list = choices.measured(6, ridge.inference, layer, x)
    assert.equal(1, #list)
    assert.equal(known, tonumber(C.rg_choices()))
    ridge.autotune(ridge.inference, layer, x)
    assert.equal(known + 1, tonumber(C.rg_choices()))
  end)

  it('is measured once, with all that decides', function()
    local layer, x = net(), ridge.randn(20, 48)
    local found = ridge.autotune(ridge.inference, layer, x)
    assert.equal(1, #found)
    local c = found[1]
    assert.same({ 20, 48, 33, 'f32', 'f32', 'f32', 'f32' },
      { c.m, c.k, c.n, c.compute, c.a, c.b, c.c })
    assert.same({ false, true, true, false, 1, 15 },
      { c.a_across, c.b_across, c.kept, c.epilogue, c.threads, c.rounds })
    assert.equal(before.isa, c.isa)
    for _, name in ipairs { 'own', 'onednn', 'openblas' } do
      local t = c.paths[name]
      assert.is_true(t.lo > 0 and t.lo <= t.ns and t.ns <= t.hi, name)
    end
    assert.is_true(c.path == c.standard or c.paths[c.path].ns < c.paths[c.standard].ns)
    assert.equal(0, #ridge.autotune(ridge.inference, layer, x))
    assert.equal(1, #backend.choices())
  end)

  it('is left by plans of before once the process is deterministic', function()
    local x, w = ridge.randn(64, 2000), ridge.randn(2000, 96)
    local function f() return x:matmul(w) end
    local modes, one = C.rg_device_modes_now(), require('ffi').new 'rg_choice'
    ridge.autotune(f)
    assert(C.rg_choice_at(0, one) == 0)
    modes.deterministic = 1
    local wanted = f()
    modes.deterministic = 0
    local others = 0
    for path = 1, 3 do
      one.path = path
      assert(C.rg_choice_put(one) == 0)
      local plan = ridge.graph(f):plan()
      others = others + (plan():equal(wanted) and 0 or 1)
      modes.deterministic = 1
      local ok, y = pcall(plan)
      modes.deterministic = 0
      assert(ok, y)
      assert.is_true(y:equal(wanted))
    end
    assert.is_true(others > 0) -- whose bits tell them apart
  end)

  it('is told apart by each size, type, layout, number of threads and what follows', function()
    local a, b = ridge.randn(20, 48), ridge.randn(48, 33)
    local layer = net()
    local calls = {
      function() return a:matmul(b) end,
      function() return a:narrow(1, 1, 19):matmul(b) end,
      function() return a:narrow(2, 1, 47):matmul(b:narrow(1, 1, 47)) end,
      function() return a:matmul(b:narrow(2, 1, 32)) end,
      function() return a:to 'bf16':matmul(b:to 'bf16') end,
      function() return ridge.randn(48, 20):transpose(1, 2):matmul(b) end,
      function() return a:matmul(ridge.randn(33, 48):transpose(1, 2)) end,
      function() return ridge.inference(layer, a) end,
    }
    for i, f in ipairs(calls) do
      assert.equal(1, #ridge.autotune(f), i)
      assert.equal(0, #ridge.autotune(f), i)
    end
    if C.rg_machine_facts().isa_level > 0 then
      backend.set_isa 'base'
      assert.equal(1, #ridge.autotune(calls[1]))
    end
    local seen = {}
    for _, c in ipairs(backend.choices()) do
      local key = ('%d %d %d %s %s %s %s %s'):format(c.m, c.k, c.n, c.compute, tostring(c.a_across),
        tostring(c.b_across), tostring(c.kept), c.isa)
      assert.is_nil(seen[key], key)
      seen[key] = true
    end
  end)

  it('is found among many', function()
    local a = ridge.randn(3, 3)
    ridge.autotune(function() return a:matmul(a) end)
    local ffi = require 'ffi'
    local one = ffi.new 'rg_choice'
    assert(C.rg_choice_at(0, one) == 0)
    for n = 100, 400 do
      one.n = n
      one.path = n % 3 + 1
      assert(C.rg_choice_put(one) == 0)
    end
    assert.equal(302, #backend.choices())
    one.n, one.path = 222, C.RG_GEMM_OWN
    assert(C.rg_choice_put(one) == 0) -- in place of another
    assert.equal(302, #backend.choices())
    for n = 100, 400 do
      local c = backend.choices()[n - 98]
      assert.equal(n, c.n)
      assert.equal(n == 222 and 'own' or ({ 'onednn', 'openblas', 'own' })[n % 3 + 1], c.path)
    end
    for _, bad in ipairs { 0, 4, -1 } do
      one.path = bad
      assert.is_true(C.rg_choice_put(one) ~= 0)
    end
    assert.is_true(C.rg_choice_at(302, one) ~= 0 and C.rg_choice_at(-1, one) ~= 0)
    assert.equal(0, #ridge.autotune(function() return a:matmul(a) end))
  end)

  for _, path in ipairs { 'own', 'onednn', 'openblas' } do
    it('is obeyed, eagerly and in plans: ' .. path, function()
      local layer, x = net(), ridge.randn(20, 48)
      local setting = backend.now()
      local isa = setting.isa
      setting.choices = ('20x48x33 f32 f32*f32=f32 bk t1 %s: %s'):format(isa, path)
      local exact = (x:to 'f64'):matmul(layer.weight:detach():to('f64'):transpose(1, 2))
        + layer.bias:detach():to 'f64'
      local more = ridge.randn(21, 48)
      local standard = path_of(function() return ridge.inference(layer, more) end)
      backend.apply(setting)
      assert.equal(setting.choices, backend.now().choices)
      local function f() return ridge.inference(layer, x) end
      assert.equal(path, path_of(f))
      local plan = ridge.capture(f)
      plan:run(1)
      assert.equal(path, path_of(function() plan:run(1) end))
      assert.is_true((f():to 'f64' - exact):abs():max():item() < 1e-5)
      assert.is_true((plan:run(1):to 'f64' - exact):abs():max():item() < 1e-5)
      -- what a path keeps of a weight is made anew when that changes
      ridge.no_grad(function()
        layer.weight:mul_(-2)
        layer.bias:mul_(-2)
      end)
      assert.is_true((plan:run(1):to 'f64' + exact * 2):abs():max():item() < 1e-5)
      assert.is_true((f():to 'f64' + exact * 2):abs():max():item() < 1e-5)
      -- another size keeps the standard path, and a forced path goes first
      assert.equal(standard, path_of(function() return ridge.inference(layer, more) end))
      backend.set_gemm 'openblas'
      assert.equal('openblas', path_of(f))
    end)
  end

  it('has a name in a plan that was captured while it was measured', function()
    local a = ridge.randn(9, 9)
    local plan
    local found = ridge.autotune(function()
      plan = ridge.capture(function() return a:matmul(a) end)
      plan:run(1)
    end)
    assert.equal(1, #found)
    assert.equal(found[1].path, path_of(function() plan:run(1) end))
  end)

  it('of one product is that of all threads', function()
    backend.set_threads(2)
    local a = ridge.randn(256, 256)
    local found = ridge.autotune(function() return a:matmul(a) end)
    assert.same({ 1, 2 }, { #found, found[1].threads })
  end)

  it('is not measured where a path is forced, or by threads of a batch', function()
    local a, b = ridge.randn(20, 48), ridge.randn(48, 33)
    backend.set_gemm 'own'
    assert.equal(0, #ridge.autotune(function() return a:matmul(b) end))
    assert.matches('path of products is forced',
      tostring(ridge.autotune(function() return a:matmul(b) end)))
    local x, w = ridge.randn(2, 8, 9, 9), ridge.randn(8, 8, 3, 3)
    local found = ridge.autotune(function() return x:conv2d(w, { padding = 1 }) end)
    assert.same({ 1, 'conv2d' }, { #found, found[1].op }) -- which has ways of its own
    backend.set_gemm 'auto'
    backend.set_threads(2)
    local many = ridge.randn(64, 64, 64)
    local product = many:matmul(many)
    assert.equal(0, #ridge.autotune(function() product = many:matmul(many) end))
    assert.same({ 64, 64, 64 }, product:size())
  end)

  it('goes to fresh processes', function()
    local setting = backend.now()
    setting.choices = ('7x8x9 f32 f32*f32=f32 t1 %s: openblas'):format(setting.isa)
    backend.apply(setting)
    local code = ("local r = ridge r.backend.apply{ threads = 1, choices = '%s' } "):format(
      backend.now().choices)
      .. 'local p = r.profile(function() return r.ones(7, 8):matmul(r.ones(8, 9)) end) '
      .. 'for _, o in ipairs(p.operations) do print(o.op, o.path) end'
    local text = assert(io.popen('./ridge -e "' .. code .. '"')):read '*a'
    assert.matches('matmul%s+openblas', text)
    backend.apply(before)
    assert.is_nil(backend.now().choices)
  end)

  it('ends with its function: errors, coroutines, no memory', function()
    local a = ridge.randn(20, 48)
    assert.has_error(function() ridge.autotune(function() error 'mine' end) end)
    assert.equal(0, C.rg_tuning(0))
    local go = coroutine.wrap(function()
      ridge.autotune(function()
        coroutine.yield()
        return a:matmul(a:transpose(1, 2))
      end)
    end)
    go()
    assert.equal(0, C.rg_tuning(0))
    ridge.randn(5, 6):matmul(ridge.randn(6, 5))
    assert.equal(0, #backend.choices())
    go()
    assert.equal(1, #backend.choices())
    backend.forget_choices()
    for n = 1, 60 do
      C.rg_alloc_fail_at(n)
      pcall(ridge.autotune, function() return a:matmul(a:transpose(1, 2)) end)
      C.rg_alloc_fail_at(0)
      assert.equal(0, C.rg_tuning(0))
    end
    assert.equal(1, #backend.choices())
    assert.equal(20, a:matmul(a:transpose(1, 2)):size(1))
  end)

  it('is told with why: measured, expected, given', function()
    local layer, x = net(), ridge.randn(20, 48)
    local function f()
      for _ = 1, 3 do ridge.inference(layer, x) end
      return ridge.ones(4, 32):matmul(ridge.ones(32, 32))
    end
    local list = backend.why(f)
    assert.equal(2, #list)
    assert.same({ 20, 48, 33, 3, 'expected' },
      { list[1].m, list[1].k, list[1].n, list[1].calls, list[1].by })
    assert.same({ 4, 32, 32, 1, 'expected' },
      { list[2].m, list[2].k, list[2].n, list[2].calls, list[2].by })
    assert.equal(path_of(function() return ridge.inference(layer, x) end), list[1].path)
    ridge.autotune(ridge.inference, layer, x)
    list = backend.why(f)
    assert.same({ 'measured', 'expected' }, { list[1].by, list[2].by })
    assert.same(backend.choices()[1].paths, list[1].paths)
    backend.forget_choices()
    backend.apply { choices = ('20x48x33 f32 f32*f32=f32 bk t1 %s: onednn'):format(before.isa) }
    list = backend.why(f)
    assert.same({ 'given', 'onednn', 3 }, { list[1].by, list[1].path, list[1].calls })
    assert.matches('^m x k x n%s+type%s+threads%s+calls%s+path%s+by%s+own%s+onednn%s+openblas\n'
      .. '20 x 48 x 33%s+f32%s+1%s+3%s+onednn%s+given\n4 x 32 x 32', tostring(list))
    backend.set_gemm 'own'
    assert.equal("no product or convolution whose path 'auto' decides", tostring(backend.why(f)))
    backend.set_gemm 'auto'
    assert.has_error(function() backend.why(function() error 'mine' end) end)
    assert.equal(0, C.rg_paths_watch(0))
    for n = 1, 20 do
      C.rg_alloc_fail_at(n)
      pcall(backend.why, f)
      C.rg_alloc_fail_at(0)
      assert.equal(0, C.rg_paths_watch(0))
    end
    assert.equal(2, #backend.why(f))
  end)

  it('is told with why, inside of autotune, of another why and over a yield', function()
    local a, b = ridge.randn(20, 48), ridge.randn(48, 33)
    local function f() return a:matmul(b) end
    local inner
    local outer = backend.why(function()
      f()
      ridge.autotune(function()
        inner = backend.why(f)
        f()
      end)
      f()
    end)
    assert.same({ 1, 1, 'measured' }, { #inner, inner[1].calls, inner[1].by })
    local calls = {}
    for _, row in ipairs(outer) do calls[row.by] = (calls[row.by] or 0) + row.calls end
    assert.equal(4, (calls.expected or 0) + (calls.measured or 0))
    local go = coroutine.wrap(function()
      return backend.why(function()
        f()
        coroutine.yield()
        f()
      end)
    end)
    go()
    f()
    assert.equal(2, go()[1].calls)
    assert.equal(0, C.rg_paths_watch(0))
  end)

  it('stays where a text is refused, and is no number that cannot be written', function()
    local isa = backend.now().isa
    local good = ('7x8x9 f32 f32*f32=f32 t1 %s: openblas'):format(isa)
    backend.apply { choices = good }
    for _, sizes in ipairs { '9223372036854775808x8x9', '7x9007199254740992x9',
      '7x8x' .. ('9'):rep(400) } do
      assert.has_error(function()
        backend.apply { choices = sizes .. ' f32 f32*f32=f32 t1 base: own' }
      end)
    end
    for _, text in ipairs { '7x8x9 f32 f32*f32=f32 t4294967297 base: own', '1' .. good .. '; x' } do
      assert.has_error(function() backend.apply { choices = text } end)
    end
    assert.equal(good, backend.now().choices)
  end)

  it('is refused where the text is none', function()
    local isa = backend.now().isa
    for _, text in ipairs { 'x', '7x8 f32 f32*f32=f32 t1 base: own',
      '7x8x9 f32 f32*f32=f32 t1 z: own', '7x8x9 f32 f32*f32=f32 t1 base: best',
      '7x8x9 f31 f32*f32=f32 t1 ' .. isa .. ': own' } do
      assert.has_error(function() backend.apply { choices = text } end)
      assert.equal(0, #backend.choices())
    end
    local _, message = pcall(ridge.autotune, 3)
    assert.matches('autotune: a function is expected, got 3', tostring(message))
  end)

  it('is of 1024 threads at most, and of fewer elements than 2^53', function()
    local most = '7x8x9 f32 f32*f32=f32 t1024 base: own'
    backend.apply { choices = most }
    assert.equal(most, choices.text())
    for _, text in ipairs { '7x8x9 f32 f32*f32=f32 t1025 base: own',
      '9007199254740992x8x9 f32 f32*f32=f32 t1 base: own' } do
      assert.has_error(function() backend.apply { choices = text } end)
      assert.equal(most, choices.text())
    end
    backend.forget_choices()
  end)

  it('is shown with its interval, and many as a table', function()
    backend.apply { choices = '7x8x9 f32 f32*f32=f32 t1 base: own' }
    assert.equal('7 x 8 x 9, f32: own, not measured here', tostring(backend.choices()[1]))
    assert.equal('m x k x n  type  threads  taken  gain  own  onednn  openblas\n'
      .. '7 x 8 x 9  f32         1  own\n1 product, 1 by another path than the standard one',
      tostring(backend.choices()))
    assert.equal('7x8x9 f32 f32*f32=f32 t1 base: own', choices.text())
    backend.forget_choices()
    local found = ridge.autotune(function() return ridge.ones(4, 4):matmul(ridge.ones(4, 4)) end)
    local text = tostring(found[1])
    assert.matches('^4 x 4 x 4%s+median%s+95 %% interval%s+f32\n', text)
    for _, name in ipairs { 'own', 'onednn', 'openblas' } do assert.matches('\n' .. name, text) end
    assert.matches(found[1].path .. '[^\n]+taken', text)
  end)
end)
