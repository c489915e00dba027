-- SPDX-License-Identifier: MIT
--- ridge.backend.why of a plan: what computes each step, and what chose it.

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local backend = ridge.backend

describe('why of a plan', function()
  local before, x, layer

  before_each(function()
    before = backend.now()
    backend.set_threads(1)
    x, layer = ridge.randn(20, 48), ridge.nn.Linear(48, 33, { seed = 1 }):eval()
  end)

  after_each(function()
    C.rg_device_modes_now().deterministic = 0
    backend.forget_choices()
    backend.apply(before)
  end)

  local function plan() return ridge.capture(ridge.inference, layer, x) end

  -- A choice of the core's, with a path in place of what was measured.
  local function choose(path)
    local one = require('ffi').new 'rg_choice'
    assert(C.rg_choice_at(0, one) == 0)
    one.path = path
    assert(C.rg_choice_put(one) == 0)
  end

  it('has a row a step, and says what a step is, also one without a choice', function()
    local net = ridge.nn.Sequential(layer, ridge.nn.LayerNorm(33)):eval()
    local p = ridge.capture(ridge.inference, net, x)
    local list, names = backend.why(p), p:facts().steps
    assert.equal(#names, #list)
    for i, row in ipairs(list) do assert.same({ i, names[i] }, { row.step, row.op }) end
    assert.same({ 20, 48, 33, 'expected', '1' },
      { list[1].m, list[1].k, list[1].n, list[1].by, list[1].module })
    assert.same({}, { list[2].by, list[2].m, list[2].path })
    local traced = {}
    for _, row in ipairs(ridge.profile(function() p() end).operations) do
      traced[row.op] = row.path
    end
    assert.equal(traced.linear, list[1].way)
    local text = tostring(list)
    assert.matches('^step  operation   module  m x k x n     way%s+by%s+own  onednn  openblas\n',
      text)
    assert.matches('\n%s+1  linear      1       20 x 48 x 33  %S+%s+expected\n', text)
    assert.matches('\n%s+2  layer_norm  2$', text)
  end)

  it('keeps what the plan takes, beside times that came later', function()
    local p = plan()
    local taken = backend.why(p)[1]
    assert.same({ 'expected', {} }, { taken.by, taken.paths })
    ridge.autotune(ridge.inference, layer, x)
    for path, name in ipairs { 'onednn', 'openblas', 'own' } do
      choose(path)
      local row = backend.why(p)[1]
      assert.same({ 'expected', taken.path, taken.way }, { row.by, row.path, row.way })
      assert.same(backend.choices()[1].paths, row.paths)
      row = backend.why(plan())[1]
      assert.same({ 'measured', name }, { row.by, row.path })
      assert.equal(name, row.way)
    end
  end)

  it('says when another path was measured to be faster meanwhile', function()
    local p = plan()
    ridge.autotune(ridge.inference, layer, x)
    local one = require('ffi').new 'rg_choice'
    assert(C.rg_choice_at(0, one) == 0)
    for path = 1, 3 do one.ratio_hi[path] = 1 end
    assert(C.rg_choice_put(one) == 0)
    assert.not_matches('since', tostring(backend.why(p)))
    one.ratio_hi[one.standard % 3 + 1] = 0.9
    assert(C.rg_choice_put(one) == 0)
    assert.matches('\n1 measured since to be faster by another path: capture it again$',
      tostring(backend.why(p)))
  end)

  it('tells what chose: given, forced, pinned, no other path', function()
    ridge.autotune(ridge.inference, layer, x)
    local standard = backend.choices()[1].standard
    local other = standard == 'own' and 'onednn' or 'own'
    choose(other == 'own' and 3 or 1)
    local p = plan()
    C.rg_device_modes_now().deterministic = 1
    for _, q in ipairs { p, plan() } do
      local row = backend.why(q)[1]
      assert.same({ 'pinned', standard }, { row.by, row.path })
    end
    C.rg_device_modes_now().deterministic = 0
    assert.same({ 'measured', other }, { backend.why(p)[1].by, backend.why(p)[1].path })
    backend.forget_choices()
    C.rg_device_modes_now().deterministic = 1
    p = plan()
    C.rg_device_modes_now().deterministic = 0
    assert.equal('pinned', backend.why(p)[1].by) -- also where nothing was measured
    backend.apply { choices = ('20x48x33 f32 f32*f32=f32 bk t1 %s: onednn'):format(before.isa) }
    assert.same({ 'given', 'onednn' }, { backend.why(plan())[1].by, backend.why(plan())[1].path })
    for _, name in ipairs { 'own', 'onednn', 'openblas' } do
      backend.set_gemm(name)
      p = plan()
      backend.set_gemm 'auto'
      assert.same({ 'forced', name }, { backend.why(p)[1].by, backend.why(p)[1].path })
    end
    local wide = x:to 'f64'
    p = ridge.capture(function() return wide:matmul(wide:transpose(1, 2)) end)
    local row = backend.why(p)[1]
    assert.same({ 'only', 'openblas' }, { row.by, row.path })
  end)

  it('has a row for each product of a step, and one for all of a batch', function()
    local low = ridge.nn.LowRankLinear(48, 33, { rank = 5 }):eval()
    local list = backend.why(ridge.capture(ridge.inference, low, x))
    assert.same({ 1, 48, 5 }, { list[1].step, list[1].k, list[1].n })
    assert.same({ 1, 5, 33 }, { list[2].step, list[2].k, list[2].n })
    local a, b = ridge.randn(6, 4, 40), ridge.randn(6, 40, 9)
    list = backend.why(ridge.capture(function() return a:matmul(b) end))
    assert.same({ 1, 4, 40, 9 }, { #list, list[1].m, list[1].k, list[1].n })
  end)

  it('of one that has not run says so, and runs nothing', function()
    local counter = ridge.zeros(1)
    local p = ridge.graph(function() return counter:add_(1):matmul(ridge.ones(1)) end):plan()
    local held = counter:item()
    local list = backend.why(p)
    assert.is_true(list.waits)
    assert.is_nil(list[#list].by)
    assert.matches('it has not run yet: a path is chosen when a step first runs$', tostring(list))
    p()
    assert.equal(held + 1, counter:item())
    list = backend.why(p)
    assert.is_nil(list.waits)
    assert.is_string(list[#list].by)
    p:release()
    local ok, err = pcall(backend.why, p)
    assert.same({ false, 'EARG' }, { ok, err.code })
    assert.matches('^.*plan_why_spec.lua:%d+: why: the plan was released', tostring(err))
  end)
end)
