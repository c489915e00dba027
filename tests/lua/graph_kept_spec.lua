-- SPDX-License-Identifier: MIT
-- What a recorded function makes and somebody still holds: an output of kind 'kept'.
local C = require 'ridge.ffi.lib'
local ridge = require 'ridge'
local nn = ridge.nn

local function kinds(graph)
  local list = {}
  for i, output in ipairs(graph:outputs()) do list[i] = output.kind end
  return table.concat(list, ' ')
end

-- A graph of f with outputs of these kinds, its plan behind dead code elimination, and x.
local function records(want, f, ...)
  local x = ridge.randn(3, 4)
  local g = ridge.graph(f, x, ...)
  assert.equal(want, kinds(g:check()), tostring(g))
  return g:optimize { 'dead_code_elimination' }:check():plan(), x, g
end

describe('what is held outside of a recorded function', function()
  it('is what a plan writes into', function()
    local held
    local plan, x = records('returned kept', function(a)
      held = a * 2
      local _ = a:neg()
      return a:exp()
    end)
    for _ = 1, 2 do
      x:copy_(ridge.randn(3, 4))
      assert.same(x:exp():tolist(), plan():tolist())
      assert.same((x * 2):tolist(), held:tolist())
    end
    local kept = plan:facts().kept
    assert.equal(1, #kept)
    assert.equal('mul', kept[1].op)
    assert.same({ 3, 4 }, kept[1].shape)
    assert.equal('f32', kept[1].dtype)
    assert.equal(2, plan:facts().n_steps)
  end)

  it('is held by nobody but who held it before', function()
    local x, held = ridge.ones(3, 4), nil
    local function record()
      ridge.graph(function(a)
        held = { a * 2, (a + 1):t(), a:exp():narrow(1, 1, 2) }
        return a:neg()
      end, x)
      held = nil
      require('ridge.ffi.ref').collect()
      return ridge.memory.stats().live
    end
    record() -- what stays with the first one
    local live = record()
    assert.equal(live, record())
    assert.equal(live, record())
    assert.is_nil(held)
  end)

  it('is what the plan was made with, whatever becomes of the graph', function()
    local held
    local plan, _, g = records('returned kept', function(a)
      held = a * 2
      return a:exp()
    end)
    plan = { plan, g:plan() }
    local node = g:nodes()[1]
    local by = g:insert('neg', node.inputs, { after = node })
    g:replace(node.outputs[1], by.outputs[1])
    g:remove(node)
    for _, p in ipairs { plan[1], plan[2], plan[2]:clone() } do
      assert.equal('mul', p:facts().kept[1].op)
    end
    assert.equal('neg', g:plan():facts().kept[1].op)
    assert.truthy(held)
  end)

  it('may be held through a view, be written to, and be of several versions', function()
    local view, whole
    local plan, x = records('returned kept', function(a)
      whole = a:exp()
      whole:narrow(1, 1, 1):fill_(7)
      view = whole:t():narrow(1, 2, 2)
      return a:neg()
    end)
    x:copy_(ridge.randn(3, 4))
    plan()
    local want = x:exp()
    want:narrow(1, 1, 1):fill_(7)
    assert.same(want:tolist(), whole:tolist())
    assert.same(want:t():narrow(1, 2, 2):tolist(), view:tolist())
    whole = nil -- luacheck: ignore
    collectgarbage()
    x:copy_(ridge.randn(3, 4))
    plan()
    want = x:exp()
    want:narrow(1, 1, 1):fill_(7)
    assert.same(want:t():narrow(1, 2, 2):tolist(), view:tolist())
  end)

  it('may be returned too', function()
    local held
    local plan, x = records('returned kept', function(a)
      held = a:exp()
      return held
    end)
    x:copy_(ridge.randn(3, 4))
    local y = plan()
    assert.same(x:exp():tolist(), y:tolist())
    assert.same(x:exp():tolist(), held:tolist())
  end)

  it('is held by a module, or by a tensor as its gradient', function()
    local cache = {}
    local w = ridge.randn(4, 2)
    w:requires_grad_()
    local plan, x = records('returned kept kept', function(a)
      cache.y = a:matmul(w)
      local loss = cache.y:pow(2):sum()
      loss:backward()
      cache.y = cache.y:detach()
      return loss:detach()
    end)
    x:copy_(ridge.randn(3, 4))
    plan()
    local y = x:matmul(w:detach())
    assert.same(y:tolist(), cache.y:tolist())
    local want = x:t():matmul(y * 2)
    assert.truthy((want - w.grad):abs():max():item() < 1e-5)
  end)

  it('is nothing that was only returned, read or let go', function()
    local net = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 2))
    records('returned', net)
    records('returned', function(a) return ridge.inference(net, a) end)
    records('returned gradient gradient gradient gradient', function(a)
      local loss = net(a):pow(2):mean()
      loss:backward()
      return loss
    end)
    records('returned', function(a)
      return ridge.scope(function() return a:exp() + a:neg() end)
    end)
    ridge.scope(function()
      records('returned', function(a) return a:exp() + a:neg() end)
    end)
    local outside = ridge.ones(3, 4)
    records('returned', function(a)
      outside:copy_(a)
      return a:exp()
    end)
    local given
    records('returned', function(a)
      given = a
      return a:exp()
    end)
    assert.truthy(given)
    records('returned', function(a)
      local co = coroutine.wrap(function() return a:exp():neg() end)
      return co()
    end)
  end)

  it('is the same for a hundred recordings, compiled or not', function()
    local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    local x, cache = ridge.randn(3, 4), {}
    local function f(a)
      local y = net(a)
      for i = 1, 60 do y = y * (1 + i) / (1 + i) end
      for i = 1, 5 do cache[6 - i] = (y + i):detach() end
      return (y - 1):pow(2):mean()
    end
    local first
    for round = 1, 100 do
      if round % 20 < 10 then jit.on() else jit.off() end
      local g = ridge.graph(f, x)
      first = first or g
      assert.equal(kinds(first), kinds(g), round)
      local same, why = first:same(g)
      assert.truthy(same, why)
    end
    jit.on()
    assert.equal(5, #cache)
    assert.equal('kept', kinds(first):match '%S+$')
  end)

  it('is what ridge.used was given, though nobody holds it', function()
    local plan, x = records('returned kept', function(a)
      assert(ridge.used(a * 2))
      local _ = a:neg()
      return a:exp()
    end)
    assert.same(x:exp():tolist(), plan():tolist())
    assert.equal('mul', plan:facts().kept[1].op)
    assert.equal(2, plan:facts().n_steps)

    local function twice() ridge.used(x * 2, x * 2) end
    assert.same({ 0, 2 }, { ridge.capture(twice):facts().recorded.left_out,
      #ridge.graph(twice):optimize { 'common_subexpression_elimination' }:nodes() })
    assert.equal(2, select('#', ridge.used(x, x)))
    for _, f in ipairs { function() ridge.used(3) end, function() ridge.used(x * 2, nil) end } do
      local ok, e = pcall(ridge.capture, f)
      assert.is_false(ok)
      assert.truthy(tostring(e):find('used: a tensor is expected', 1, true), tostring(e))
    end

    local other = coroutine.create(function() -- waits inside a recording of its own
      return ridge.capture(function()
        ridge.used(x:neg())
        coroutine.yield()
        return x + 1
      end)
    end)
    coroutine.resume(other)
    ridge.used(x:exp())
    assert.equal(1, ridge.capture(function() return x * 2 end):facts().n_steps)
    local _, made = coroutine.resume(other)
    local recorded = made:facts().recorded
    assert.same({ 2, 0 }, { recorded.n_calls, recorded.left_out })
  end)

  it('does not start a collector that was stopped', function()
    collectgarbage 'stop'
    local ok, why = pcall(records, 'returned', function(a) return a:exp() end)
    local running = collectgarbage 'isrunning'
    collectgarbage 'restart'
    assert(ok, why)
    assert.is_false(running)
  end)

  -- Does a capture of f collect what nobody holds?
  local function collects(f)
    local layer, x = ridge.nn.Linear(3, 2):eval(), ridge.ones(4, 3)
    local function both() return ridge.capture(f, layer, x) end
    ridge.inference(both) -- what is loaded at the first call is garbage of its own
    collectgarbage()
    collectgarbage 'stop'
    local garbage = setmetatable({ {} }, { __mode = 'v' })
    local ok, why = pcall(ridge.inference, both)
    collectgarbage 'restart'
    assert(ok, why)
    return garbage[1] == nil
  end

  it('collects only where something that was made may be garbage', function()
    assert.is_false(collects(function(layer, x) return layer(x) end))
    assert.is_false(collects(function(layer, x) return layer(x), layer(x) end))
    assert.is_true(collects(function(layer, x) return layer(x) + 1 end))
    assert.equal(0, C.rg_record_held())
  end)

  it('says so where there is no memory', function()
    local n, status = 0
    repeat
      n = n + 1
      local x = ridge.ones(3)
      assert.equal(0, tonumber(C.rg_capture_begin()))
      assert.equal(0, tonumber(C.rg_record_begin(0)))
      local held = { x:exp(), x:neg() }
      C.rg_alloc_fail_at(n)
      status = tonumber(C.rg_record_kept())
      C.rg_alloc_fail_at(0)
      assert.truthy(status == 0 or status == C.RG_ENOMEM, tostring(status))
      C.rg_record_cancel()
      C.rg_capture_cancel()
      assert.equal(2, #held)
    until status == 0
    assert.truthy(n > 2, n)
    assert.equal(tonumber(C.RG_ECAPTURE), tonumber(C.rg_record_kept()))
  end)
end)
