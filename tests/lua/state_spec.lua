-- SPDX-License-Identifier: MIT
-- States that hold while a function runs: they end with it, by whatever it ends, and a coroutine
-- that yields inside leaves none of them on.
local ffi = require 'ffi'
local ridge = require 'ridge'
local state = require 'ridge.state'
local C = require 'ridge.ffi.lib'

-- Everything that can be on, as it can be seen from outside.
local function seen()
  local tag = C.rg_memory_tag_enter(0)
  C.rg_memory_tag_enter(tag)
  local anomaly = C.rg_grad_anomaly(0)
  C.rg_grad_anomaly(anomaly)
  local names = C.rg_call_names(0)
  C.rg_call_names(names)
  local g = C.rg_generator_default()
  local part, back = ffi.new 'rg_recomputed', ffi.new 'rg_recomputed'
  C.rg_record_recomputed(part)
  ffi.copy(back, part, ffi.sizeof(part)) -- compiled Lua may read what is given back behind the call
  C.rg_record_recomputed(back)
  return { autocast = C.rg_autocast(), recording = require('ridge.tensor.grad').recording(),
    capturing = C.rg_capturing(), depth = C.rg_scope_depth(), tag = tag, anomaly = anomaly,
    hook = debug.gethook() == nil, compiles = (jit.status()), stream = ridge.device.stream('cpu'),
    threads = ridge.backend.threads(), names = names,
    seed = tonumber(C.rg_generator_seed(g)), offset = tonumber(C.rg_generator_offset(g)),
    again = require('ridge.tensor.recompute').again, repeats = part.on,
    noted = require('ridge.random').drawn ~= nil }
end

-- A function for each state: calls f inside it. `on` is what `seen` shows there.
local STATES = {
  autocast = { function(f) return ridge.autocast('bf16', f) end, { autocast = C.RG_BF16 } },
  no_grad = { ridge.no_grad, { recording = false } },
  scope = { ridge.scope, { depth = 1 } },
  capture = { function(f)
    return ridge.capture(function()
      f()
      return ridge.ones(1)
    end)
  end, { capturing = 1 } },
  tag = { function(f) return ridge.memory.tag('state_spec', f) end },
  anomaly = { ridge.anomaly, { anomaly = 1, hook = false, compiles = false } },
  stream = { function(f) return ridge.device.on_stream('cpu', 3, f) end, { stream = 3 } },
  profile = { function(f) return ridge.profile(function() f() end) end },
  range = { function(f) return ridge.profile_range('a', f) end },
  timeline = { function(f) return ridge.timeline(f) end },
  backward = { function(f)
    local x = ridge.ones(2):requires_grad_()
    ridge.hook(x * 2, function() f() end):sum():backward()
  end },
  recompute = { function(f)
    local x = ridge.ones(2):requires_grad_()
    local calls = 0
    local function part(a)
      calls = calls + 1
      if calls == 2 then f() end
      return a * 2
    end
    ridge.autocast('bf16', ridge.recompute, part, x):sum():backward()
  end, { again = true, autocast = C.RG_BF16 } },
  ['recompute, captured'] = { function(f)
    local x = ridge.ones(2):requires_grad_()
    local calls = 0
    return ridge.capture(function()
      local y = ridge.recompute(function(a)
        calls = calls + 1
        if calls == 2 then f() end
        return a * 2
      end, x)
      y:sum():backward()
      return y
    end)
  end, { again = true, capturing = 1, repeats = 1 } },
  ['recompute, forward'] = { function(f)
    return ridge.recompute(function(a)
      f()
      return a * 2
    end, ridge.ones(2):requires_grad_())
  end, { recording = false, noted = true } },
}

local function each_state(f)
  for name, case in pairs(STATES) do f(name, case[1], case[2] or {}) end
end

describe('a state', function()
  before_each(function() ridge.seed(1) end)

  it('is on inside and off behind, also behind an error', function()
    each_state(function(name, enter, on)
      local before, inside = seen(), nil
      enter(function() inside = seen() end)
      for field, value in pairs(on) do assert.are.equal(value, inside[field], name) end
      assert.same(before, seen(), name)
      local ok, err = pcall(enter, function() error({ 'mine' }) end)
      assert.is_false(ok)
      assert.are.equal('mine', err[1], name)
      assert.same(before, seen(), name)
    end)
  end)

  it('is its coroutine\'s: off while that waits, on again when it goes on', function()
    each_state(function(name, enter, on)
      for _, how in ipairs { 'resume', 'wrap' } do
        local before = seen()
        local list, n = {}, 0
        local function body(...)
          assert.same({ 1, nil, 3 }, { ... })
          enter(function()
            list[1] = seen()
            assert.same({ 'a', nil, 'b' }, { coroutine.yield(4, nil, 6) })
            list[2] = seen()
            coroutine.yield()
            list[3] = seen()
          end)
          return 'end', nil
        end
        local go
        if how == 'wrap' then
          go = coroutine.wrap(body)
        else
          local co = coroutine.create(body)
          go = function(...)
            local got = { coroutine.resume(co, ...) }
            assert.is_true(got[1], tostring(got[2]))
            return unpack(got, 2, 4)
          end
        end
        assert.same({ 4, nil, 6 }, { go(1, nil, 3) })
        assert.same(before, seen(), name)
        local x = ridge.randn(16, 16)
        assert.are.equal('f32', x:matmul(x).dtype)
        before = seen()
        go('a', nil, 'b')
        assert.same(before, seen(), name)
        assert.are.equal('end', (go()))
        assert.same(before, seen(), name)
        for i = 1, 3 do
          for field, value in pairs(on) do assert.are.equal(value, list[i][field], name) end
          n = n + 1
        end
        assert.are.equal(3, n)
      end
    end)
  end)

  it('stays as it is when its coroutine is resumed while that runs', function()
    for _, through in ipairs { 'itself', 'another' } do
      local before, inside = seen(), {}
      local co
      co = coroutine.create(function()
        ridge.no_grad(function()
          coroutine.yield()
          inside[1] = seen()
          local ok, err
          if through == 'itself' then
            ok, err = coroutine.resume(co)
          else
            ok, err = unpack { coroutine.wrap(function() return coroutine.resume(co) end)() }
          end
          assert.is_false(ok)
          assert.matches('cannot resume', err)
          inside[2] = seen()
        end)
        inside[3] = seen()
      end)
      assert.is_true(coroutine.resume(co))
      assert.same({ true }, { coroutine.resume(co) })
      assert.is_false(inside[1].recording)
      assert.same(inside[1], inside[2], through)
      assert.same(before, inside[3], through)
      assert.same(before, seen(), through)
    end
  end)

  it('of a coroutine that nobody goes on with is off for good, and its memory is let go', function()
    each_state(function(name, enter)
      local before = seen()
      local function leave_one()
        local go = coroutine.wrap(function()
          enter(function()
            local x = ridge.ones(1000) + 1
            coroutine.yield()
            return x
          end)
        end)
        go()
      end
      leave_one()
      assert.same(before, seen(), name)
      -- the same state can be entered meanwhile, and behind it
      enter(function() end)
      assert.same(before, seen(), name)
    end)
    local function live()
      jit.flush()
      require('ridge.ffi.ref').collect()
      ridge.memory.trim()
      return ridge.memory.stats().live
    end
    local before = live()
    for _, enter in ipairs { ridge.scope, function(f) ridge.capture(f) end } do
      for _ = 1, 10 do
        coroutine.wrap(function()
          enter(function()
            local x = ridge.ones(100000) + 1
            coroutine.yield()
            return x
          end)
        end)()
      end
    end
    assert.are.equal(before, live())
  end)

  it('of each of several coroutines in turns is its own', function()
    local got = {}
    local function job(number, enter)
      return coroutine.wrap(function()
        for _ = 1, 3 do
          enter(function()
            got[number] = seen()
            coroutine.yield(true)
            assert.same(got[number], seen())
          end)
        end
      end)
    end
    local jobs = { job(1, STATES.autocast[1]), job(2, ridge.no_grad), job(3, ridge.scope),
      job(4, STATES.capture[1]), job(5, STATES.capture[1]), job(6, STATES.tag[1]),
      job(7, function(f) ridge.scope(ridge.autocast, 'f16', ridge.no_grad, f) end) }
    local before = seen()
    ridge.no_grad(function() -- what is on outside is on inside too
      for round = 1, 4 do
        for i, go in ipairs(jobs) do
          if round < 4 then assert.is_true(go()) else go() end
          if round < 4 then assert.is_false(got[i].recording) end
        end
      end
    end)
    assert.are.equal(C.RG_BF16, got[1].autocast)
    assert.are.equal(C.RG_F16, got[7].autocast)
    assert.are.equal(1, got[7].depth)
    assert.are.equal(1, got[5].capturing)
    assert.same(before, seen())
  end)

  it('inside another one of the same coroutine comes and goes with it', function()
    local list = {}
    local go = coroutine.wrap(function()
      ridge.scope(function()
        local outer = ridge.ones(10)
        ridge.autocast('bf16', function()
          ridge.scope(function()
            local inner = ridge.ones(20)
            coroutine.yield(outer, inner)
            list.inside = seen()
            list.inner = inner
          end)
          list.after = seen()
        end)
        assert.are.equal(10, outer:sum():item())
        list.outer = outer
      end)
    end)
    local outer, inner = go()
    assert.are.equal(0, seen().depth)
    assert.are.equal(20, inner:sum():item()) -- it is not released while the coroutine waits
    local mine
    ridge.scope(function() -- and goes on within another scope, as deep as that asks
      mine = ridge.ones(5)
      go()
      assert.are.equal(1, seen().depth)
      assert.are.equal(5, mine:sum():item())
    end)
    assert.are.equal(3, list.inside.depth)
    assert.are.equal(2, list.after.depth)
    for _, x in ipairs { outer, inner, list.outer, list.inner, mine } do
      local ok, err = pcall(x.sum, x)
      assert.is_false(ok)
      assert.matches('released', tostring(err))
    end
  end)

  it('that was left on inside another one goes with that', function()
    local entry
    local kind = { on = function() end, off = function() end,
      stop = function() entry.ended = true end }
    ridge.no_grad(function() entry = state.enter(kind, {}) end)
    assert.is_true(entry.ended)
    assert.is_nil(state.mark())
    assert.is_false(state.take(entry))
    state.leave(entry) -- twice is nothing
  end)
end)

describe('a capture whose coroutine waits', function()
  it('goes on with the same plan', function()
    local x = ridge.ones(4)
    local plan
    local go = coroutine.wrap(function()
      plan = ridge.capture(function()
        local y = x * 2
        coroutine.yield(y)
        return y:cumsum(1)
      end)
    end)
    local y = go()
    assert.are.equal(2, y[1]:item()) -- a number may be read: nothing is captured now
    local z = ridge.ones(8) * 3
    local other = ridge.capture(function() return z + 1 end)
    go()
    assert.same({ 'mul', 'cumsum' }, (function()
      local names = {}
      for i, name in ipairs(plan:facts().steps) do names[i] = name:match '%a+' end
      return names
    end)())
    x:fill_(5)
    assert.same({ 10, 20, 30, 40 }, plan():tolist())
    assert.are.equal(4, other()[1]:item())
  end)

  it('does not go on inside another capture, and can later', function()
    local plan
    local co = coroutine.create(function()
      plan = ridge.capture(function()
        local y = ridge.ones(2):neg()
        coroutine.yield()
        return y
      end)
    end)
    assert.is_true(coroutine.resume(co))
    ridge.capture(function()
      local ok, err = coroutine.resume(co)
      assert.is_false(ok)
      assert.matches('another one is under way', tostring(err))
      assert.are.equal('suspended', coroutine.status(co))
      return ridge.ones(2):neg()
    end)
    assert.is_true(coroutine.resume(co))
    assert.are.equal(-1, plan()[1]:item())
  end)
end)

describe('what is noted', function()
  local function names(list)
    local found = {}
    for _, each in ipairs(list) do found[each.op or each.name] = true end
    return found
  end

  it('of a profile or a timeline is what its coroutine did', function()
    local x = ridge.ones(8)
    for _, way in ipairs { 'profile', 'timeline' } do
      local result
      local go = coroutine.wrap(function()
        result = ridge[way](function()
          local y = x:exp()
          coroutine.yield()
          return y:tanh()
        end)
      end)
      go()
      local _ = x:sqrt()
      go()
      local found = names(result.operations or result.spans)
      assert.is_true(found.exp and found.tanh)
      assert.is_nil(found.sqrt)
    end
  end)

  it('is not mixed with that of another one that was made meanwhile', function()
    local x = ridge.ones(2)
    for _, way in ipairs { 'profile', 'timeline' } do
      local result
      local co = coroutine.create(function()
        result = ridge[way](function()
          local y = x:sqrt()
          coroutine.yield()
          return y:tanh()
        end)
      end)
      coroutine.resume(co)
      local other = ridge[way](function() return x:exp() end)
      assert.is_true(coroutine.resume(co))
      local own, its = names(result.operations or result.spans),
        names(other.operations or other.spans)
      assert.is_true(own.sqrt and own.tanh and its.exp)
      assert.is_nil(own.exp or its.sqrt or its.tanh)
    end
  end)

  it('of one inside another is in both, and of coroutines that are left in none', function()
    local x = ridge.ones(2)
    for _, way in ipairs { 'profile', 'timeline' } do
      local inner
      local outer = ridge[way](function()
        local y = x:exp()
        inner = ridge[way](function() return x:sqrt() end)
        return y:tanh()
      end)
      local all, part = names(outer.operations or outer.spans), names(inner.operations or
        inner.spans)
      assert.is_true(all.exp and all.sqrt and all.tanh and part.sqrt)
      assert.is_nil(part.exp or part.tanh)
      for _ = 1, 100 do -- a thread has 24 readers
        coroutine.wrap(function() ridge[way](coroutine.yield) end)()
        collectgarbage()
      end
      assert.is_true(names(ridge[way](function() return x:exp() end)[
        way == 'profile' and 'operations' or 'spans']).exp)
      assert.is_false(require('ridge.ranges').on)
    end
  end)
end)

describe('a backward pass whose coroutine waits', function()
  it('lets others go back meanwhile', function()
    local x = ridge.ones(2):requires_grad_()
    local got
    local go = coroutine.wrap(function()
      local y = ridge.hook(x * 3, function(g)
        coroutine.yield()
        return g * 2
      end)
      got = ridge.grad(y:sum(), x)
    end)
    go()
    local w = ridge.ones(2):requires_grad_()
    ridge.recompute(function(a) return a * 5 end, w):sum():backward() -- adds to .grad
    assert.same({ 5, 5 }, w.grad:tolist())
    go()
    assert.same({ 6, 6 }, got:tolist())
  end)
end)

describe('a coroutine', function()
  it('is what it is in Lua otherwise', function()
    local function where()
      return 'tests/lua/state_spec.lua:' .. debug.getinfo(2, 'l').currentline
    end
    local co = coroutine.create(function() error('in it', 0) end)
    assert.same({ false, 'in it' }, { coroutine.resume(co) })
    assert.same({ false, 'cannot resume dead coroutine' }, { coroutine.resume(co) })
    assert.are.equal('dead', coroutine.status(co))
    local object = {}
    assert.are.equal(object, select(2, pcall(coroutine.wrap(function() error(object) end))))
    local here
    local ok, err = pcall(function()
      local go = coroutine.wrap(function() error('in it', 0) end)
      here = where(); go()
    end)
    assert.is_false(ok)
    assert.are.equal(here .. ': in it', err)
    assert.matches("bad argument #1 to 'wrap' %(function expected", select(2,
      pcall(coroutine.wrap, 5)))
    assert.matches("bad argument #1 to 'resume' %(coroutine expected", select(2,
      pcall(coroutine.resume, 5)))
    local sum = 0
    for a, b in coroutine.wrap(function()
      for i = 1, 4 do coroutine.yield(i, i * i) end
    end) do
      sum = sum + a + b
    end
    assert.are.equal(40, sum)
    local inner = coroutine.wrap(function() coroutine.yield(coroutine.wrap(function()
      coroutine.yield(7)
    end)()) end)
    assert.are.equal(7, inner())
  end)

  it('is in calls of modules of its own, for errors', function()
    local Waits, Fails = ridge.nn.class 'Waits', ridge.nn.class 'Fails'
    function Waits.forward(_, x)
      coroutine.yield()
      return x
    end
    function Fails.forward(_, x) return x:matmul(ridge.ones(7, 7)) end
    local go = coroutine.wrap(function() return Waits()(ridge.ones(2, 2)) end)
    go()
    local _, err = pcall(Fails(), ridge.ones(2, 2))
    assert.matches('in Fails$', tostring(err))
    go()
  end)
end)

describe('the prompt', function()
  it('puts back what a line has left on', function()
    local session = require('ridge.repl.session').new { write = function() end }
    local kind = { on = function() C.rg_autocast_set(C.RG_BF16) end,
      off = function() C.rg_autocast_set(-1) end }
    session.env.leave_on = function() state.enter(kind, {}) end
    session:run 'leave_on()'
    assert.are.equal(-1, C.rg_autocast())
    session:run 'leave_on() error "x"'
    assert.are.equal(-1, C.rg_autocast())
    assert.is_nil(state.mark())
  end)
end)
