-- SPDX-License-Identifier: MIT
-- ridge.compile where modes fail: what is taken instead, what is said, and what is raised where
-- nothing else may be taken.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local C = require 'ridge.ffi.lib'
local nn = ridge.nn

local MODES = { 'default', 'reduce-overhead', 'max-autotune', 'auto' }

-- Another function in the place of relu.
ridge.graph.pass('fallback_spec: gelu for relu', function(g)
  for _, node in ipairs(g:nodes()) do
    if node.op == 'relu' then
      local gelu = g:insert('gelu', node.inputs, { after = node })
      g:replace(node.outputs[1], gelu.outputs[1])
      g:remove(node)
    end
  end
end)

local stopping -- what the pass raises
ridge.graph.pass('fallback_spec: stops', function() blame.raise('stopped', stopping) end)

local said

local function compiled(f, opts)
  said = {}
  opts.say = function(line) said[#said + 1] = line end
  return ridge.compile(f, opts)
end

local function refused(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok, 'it was expected to fail: ' .. text)
  assert.matches(text, tostring(err), 1, true)
  return err
end

describe('ridge.compile whose modes fail', function()
  local net = nn.Sequential(nn.Linear(3, 4, { seed = 1 }), nn.ReLU()):eval()
  local x = ridge.randn(5, 3)

  it('raises without fallback, in every mode, at every call', function()
    for _, mode in ipairs(MODES) do
      local f = compiled(net, { mode = mode, fallback = false,
        passes = { 'fallback_spec: gelu for relu' } })
      for _ = 1, 2 do
        local err = refused('its plan computes something else: off by ', f, x)
        assert.matches('compile: ', err.message, 1, true)
        if mode ~= 'auto' then
          assert.matches('compile: f32[5,3]: mode ' .. mode .. ': ', err.message, 1, true)
        end
      end
    end
  end)

  it('says in the report why none works, and of each that was tried', function()
    local lines = { default = 1, ['reduce-overhead'] = 3, ['max-autotune'] = 2, auto = 4 }
    for _, mode in ipairs(MODES) do
      local f = compiled(net, { mode = mode, passes = { 'fallback_spec: gelu for relu' } })
      assert.equal(1, f(x):eq(net(x)):all():item())
      assert.equal(lines[mode], #said)
      local row = f:report()[1]
      assert.equal('eager', row.mode)
      assert.matches('its plan computes something else', row.why, 1, true)
      assert.matches('now the function as it is', said[#said], 1, true)
    end
  end)

  it('passes Ctrl-C on, and compiles at the next call', function()
    for _, mode in ipairs(MODES) do
      local f = compiled(net, { mode = mode, passes = { 'fallback_spec: stops' } })
      stopping = 'EINTR'
      local err = refused('stopped', f, x)
      assert.equal('EINTR', err.code)
      assert.same({}, said)
      stopping = 'EARG'
      f(x)
      assert.matches('now the function as it is', said[#said], 1, true)
    end
  end)

  it('has plans for each mode of autocast and of inference', function()
    local f = compiled(net, {})
    f(x)
    local half = ridge.autocast('bf16', function() return f(x) end)
    ridge.inference(f, x)
    assert.equal(3, #said)
    assert.equal(ridge.autocast('bf16', function() return net(x) end).dtype, half.dtype)
    for _ = 1, 2 do
      f(x)
      ridge.inference(f, x)
      ridge.autocast('bf16', function() return f(x) end)
    end
    assert.equal(3, #said)
  end)

  it('raises at the second call, where that disproves the plan of what writes', function()
    for _, fallback in ipairs { true, false } do
      local state, calls = ridge.zeros(3), 0
      local f = compiled(function(a)
        calls = calls + 1
        state:add_(a * calls) -- a number of Lua: a plan has that of the first call
        return state * 1
      end, { fallback = fallback })
      local one = ridge.ones(3)
      f(one)
      if fallback then
        f(one)
        assert.equal(3, state:get(1))
        assert.matches('now the function as it is', said[#said], 1, true)
      else
        refused('compile: its plan computes something else than the function: off by ', f, one)
        assert.equal(3, state:get(1)) -- what the function computed, not the plan
      end
    end
  end)
end)

describe('a graph that is asked for something while it is interrupted', function()
  after_each(function() C.rg_interrupt_clear() end)

  it('passes that on', function()
    local h = ridge.graph(function(a) return a:exp() * 1 end, ridge.ones(3)):optimize 'standard'
    local plan = getmetatable(h).__index.plan
    getmetatable(h).__index.plan = function() blame.raise('stopped', 'EINTR') end
    local of = { { pcall(h.memory, h) }, { pcall(h.changes, h) } }
    getmetatable(h).__index.plan = plan
    for _, result in ipairs(of) do
      assert.is_false(result[1])
      assert.equal('EINTR', result[2].code)
    end
  end)

  it('passes on what a function raises at one of the three sizes', function()
    local function f(a)
      if a.shape[1] == 7 then blame.raise('stopped', 'EINTR') end
      return a * 2
    end
    local err = refused('stopped', ridge.graph, f, ridge.ones(4, 3), { sizes = { { 'N', 3 } } })
    assert.equal('EINTR', err.code)
    local g = ridge.graph(function(a)
      if a.shape[1] == 9 then blame.raise('stopped', 'EINTR') end
      return a * 2
    end, ridge.ones(4, 3), { sizes = { { 'N', 3 } } })
    assert.equal('EINTR', refused('stopped', g.at, g, 9, { check = true }).code)
  end)
end)
