-- SPDX-License-Identifier: MIT
-- ridge.compile: what a function reads that it is not called with, and that is another one later.
local ridge = require 'ridge'
local nn = ridge.nn

local function compiled(f, opts)
  local lines = {}
  opts = opts or {}
  opts.say = function(line) lines[#lines + 1] = line end
  return ridge.compile(f, opts), lines
end

local function plans(lines)
  local n = 0
  for _, line in ipairs(lines) do n = n + (line:find('a new plan', 1, true) and 1 or 0) end
  return n
end

local function first(y) return y[1]:item() end

-- f(x) is x times the number that `set` was given last, under a name in what is said.
local function follows(f, set, name, values)
  local x = ridge.ones(3)
  local g, lines = compiled(f)
  for i, value in ipairs(values) do
    set(value)
    local want = first(f(x))
    for _ = 1, 3 do assert.equal(want, first(g(x)), ('%s, value %d'):format(name, i)) end
    assert.equal('default', g:report()[1].mode)
  end
  assert.equal(#values, plans(lines), table.concat(lines, '\n'))
  local said = 0
  for _, line in ipairs(lines) do
    said = said + (line:find('f32[3]: ' .. name, 1, true)
      and line:find('; it is compiled again', 1, true) and 1 or 0)
  end
  assert.equal(#values - 1, said, table.concat(lines, '\n'))
end

describe('ridge.compile, what is read from outside', function()
  it('compiles anew where an upvalue is another tensor, number, text or function', function()
    local w, by, kind, g
    follows(function(x) return x * w end, function(v) w = ridge.ones(3) * v end,
      'w is another tensor', { 2, 3 })
    follows(function(x) return x * by end, function(v) by = v end, 'by is', { 2, 3, -1 })
    follows(function(x) return kind == 'neg' and x:neg() or x end, function(v) kind = v end,
      'kind', { 'neg', 'pos' })
    follows(function(x) return kind and x:neg() or x end, function(v) kind = v or nil end,
      'kind is', { true, false })
    follows(function(x) return g(x) end,
      function(v) g = function(x) return x * v end end, 'g was replaced', { 2, 3 })
  end)

  it('compiles anew for a global, a field it names, an item, and those of its functions', function()
    local cfg, list, deep = { scale = 1, other = 1 }, { 1, 2 }, 4
    local env = setmetatable({ by = 5 }, { __index = _G })
    follows(setfenv(function(x) return x * by end, env), -- luacheck: ignore
      function(v) env.by = v end, 'by is', { 2, 3 })
    follows(function(x) return x * cfg.scale end, function(v) cfg.scale = v end, 'cfg.scale is',
      { 2, 3 })
    follows(function(x) return x * list[2] end, function(v) list[2] = v end, 'list[2] is', { 2, 3 })
    local function inner(x) return x * deep end
    follows(function(x) return inner(x) end, function(v) deep = v end, 'deep is', { 2, 3 })
    follows(function(x)
      local function within(y) return y * cfg.scale end
      return within(x)
    end, function(v) cfg.scale = v end, 'cfg.scale is', { 2, 3 })
    local Own = nn.class 'Own'
    function Own.forward(_, x) return x * deep end -- luacheck: ignore
    local module = Own():eval()

    local x = ridge.ones(3)
    local g, lines = compiled(module)
    deep = 2
    assert.equal(2, first(g(x)))
    deep = 7
    assert.equal(7, first(g(x)))
    assert.equal(2, plans(lines))
  end)

  it('leaves the plan where nothing that it reads has changed', function()
    local w, nan, n, cfg = ridge.ones(3), 0 / 0, 0, { scale = 2, steps = 0 }
    local f, lines = compiled(function(x)
      n = n + 1 -- its own
      return x * w * cfg.scale + nan
    end)
    local x = ridge.ones(3)
    for _ = 1, 5 do
      f(x)
      cfg.steps = cfg.steps + 1
      cfg[cfg.steps .. ''] = true
    end
    w:fill_(3) -- the same tensor: it is read where it lies
    f(x)
    assert.equal(1, plans(lines))
    nan = 1
    assert.equal(7, first(f(x)))
    assert.equal(2, plans(lines))
    assert.is_true(n > 0)
    local g = compiled(function(y) return y * w end)
    assert.equal(3, first(g(x)))
    w:fill_(4)
    assert.equal(4, first(g(x)))
  end)

  it('runs the function where that changes again and again, or refuses to', function()
    local by = 0
    local f, lines = compiled(function(x) return x * by end)
    local x = ridge.ones(3)
    for i = 1, 20 do
      by = i
      assert.equal(i, first(f(x)))
    end
    assert.equal(9, plans(lines))
    assert.equal('compile: f32[3]: by is 10, and was 9: what it reads from outside has changed 9 '
      .. 'times; hand it to f; now the function as it is', lines[#lines])
    assert.equal('eager', f:report()[1].mode)
    local strict = compiled(function(y) return y * by end, { fallback = false })
    local refused
    for i = 1, 10 do
      by = i
      local ok, err = pcall(strict, x)
      refused = not ok and i or refused
      if not ok then assert.truthy(tostring(err):find('has changed 9 times', 1, true)) end
    end
    assert.equal(10, refused)
  end)

  it('is held against both where a training step writes', function()
    ridge.seed(1)
    local target = ridge.zeros(2, 4)
    local layer = nn.Linear(3, 4, { seed = 2 })
    local other = nn.Linear(3, 4, { seed = 2 })
    local drop = { [layer] = ridge.optim.SGD(layer, { lr = 0.1 }),
      [other] = ridge.optim.SGD(other, { lr = 0.1 }) }
    local function step(net, t, x)
      drop[net]:zero_grad()
      local loss = (net(x) - t):square():mean()
      loss:backward()
      return loss
    end
    local f = compiled(function(x) return step(layer, target, x) end)
    for i = 1, 8 do
      if i == 5 then target = ridge.ones(2, 4) end
      local x = ridge.randn(2, 3)
      local want = step(other, target, x):item()
      assert.is_true(math.abs(want - f(x):item()) <= 1e-5 * math.abs(want), 'step ' .. i)
      assert.is_true((layer.weight.grad - other.weight.grad):abs():max():item() < 1e-5)
    end
  end)
end)
