-- SPDX-License-Identifier: MIT
-- A file of a graph, and the same with one word of it changed, each word after the other: the
-- sentence that is said, as approved, or what the graph is then that came of it.
local approved = require 'tests.lua.approved'
local ridge = require 'ridge'
local nn = ridge.nn

-- A graph with a bit of everything that a file has.
local function sample()
  ridge.seed(1)
  local x, kept = ridge.randn(2, 3, 4, 4), ridge.randn(4)
  local conv, norm = nn.Conv2d(3, 4, 3), nn.BatchNorm(4)
  local own = ridge.generator(7)
  local graph = ridge.graph(function(a)
    local y = norm(conv(a)):dropout(0.5, own):sum { 3, 4 }
    kept:mul_(0.5)
    y = ridge.recompute(function(z) return (z * kept):exp():dropout(0.25) end, y)
    local u = ridge.zeros(2, 4):reshape(8)
    return nn.cross_entropy(y, ridge.zeros(2):to 'i64'), u, ridge.zeros(2):fill_(1 / 0),
      (x:narrow(1, 1, 1):relu() * 2):tanh()
  end, x)
  local first = debug.getinfo(1, 'S').linedefined
  return (graph:optimize { 'elementwise_fusion' }:json():gsub('"line": "[^"]*:(%d+)"', function(n)
    return '"line": "net.lua:' .. n - first .. '"'
  end))
end

-- Words of a text: { from, to, kind }.
local function words_of(text)
  local list, at = {}, 1
  while at <= #text do
    local from, to, kind
    for _, p in ipairs { { '^%s+', 'space' }, { '^"[^"]*"', 'text' }, { '^[%d.e+-]+', 'number' },
      { '^%a+', 'word' }, { '^.', 'sign' } } do
      from, to = text:find(p[1], at)
      if from then
        kind = p[2]
        break
      end
    end
    list[#list + 1] = { from = from, to = to, kind = kind }
    at = to + 1
  end
  return list
end

local INSTEAD = {
  text = { '"x"', '7', '"' },
  number = { '-1', '0', '1', '4', '0.5', '99999999999', '"x"', 'null', '' },
  word = { 'nul', '0' },
  sign = { '', ';' },
}

describe('a file of a graph', function()
  -- the path that RIDGE_GEMM forces is a mode of nodes
  local before = ridge.backend.now()
  setup(function() ridge.backend.set_gemm 'auto' end)
  teardown(function() ridge.backend.set_gemm(before.gemm) end)

  it('is the graph, and what is printed of it', function()
    local text = sample()
    local graph = ridge.graph.parse(text)
    assert.equal(text, graph:json())
    approved.check('graph/sample', text .. '\n' .. tostring(graph))
  end)

  it('is refused with a sentence where it is damaged, or is the graph that it says', function()
    local text = sample()
    local whole = ridge.graph.parse(text)
    local out, seen, list, key = {}, {}, 'graph', ''
    for _, word in ipairs(words_of(text)) do
      local is = text:sub(word.from, word.to)
      local behind = text:sub(word.to + 1, word.to + 1)
      if word.kind == 'text' and behind == ':' then key = is end
      list = text:sub(1, word.from - 1):match '.*\n  "(%w+)"' or list
      local about = list .. ' ' .. key .. ' ' .. (word.kind == 'sign' and is
        or behind == ':' and 'key' or word.kind)
      seen[about] = (seen[about] or 0) + 1
      if INSTEAD[word.kind] and seen[about] == 1 then
        for _, by in ipairs(INSTEAD[word.kind]) do
          local ok, g = pcall(ridge.graph.parse, text:sub(1, word.from - 1) .. by
            .. text:sub(word.to + 1))
          local said
          if ok then
            local same, e = whole:same(g)
            said = same and 'the same' or e
          else
            said = tostring(g):match ': (graph: .*)' or tostring(g)
          end
          out[#out + 1] = ('%s: %s -> %s: %s'):format(about, is, by, said:match '[^\n]*')
        end
      end
    end
    approved.check('graph/damaged', table.concat(out, '\n'))
  end)

  it('is refused where a record is given an axis that its input has not', function()
    local g = ridge.graph(function(x)
      return x:argmax(1), ridge.concat({ x, x }, 1), x:softmax(2), x:cumsum(1), (x:sort(2)),
        x:resize { 3, 5 }, x:gather(1, ridge.zeros({ 1, 3 }, { dtype = 'i64' })),
        ridge.quantize(x, 0.1, 0, { axis = 1 })
    end, ridge.ones(2, 3))
    local text, names = g:json(), { 'argmax', 'concat', 'softmax', 'cumsum', 'sort', 'resample',
      'resample', 'gather', 'quantize' }
    for _, axis in ipairs { 2, 7, 8, 63, 2 ^ 31 - 1, -1, -2 ^ 31 } do
      for i, name in ipairs(names) do
        local k = 0
        local other = text:gsub('"axis": %-?%d+', function()
          k = k + 1
          return k == i and ('"axis": %d'):format(axis) or nil
        end)
        assert.equal(#names, k)
        local ok, err = pcall(ridge.graph.parse, other)
        assert.is_false(ok)
        local said = ('%s: there is no axis %d in f32['):format(name, axis + 1)
        assert.truthy(tostring(err):find(said, 1, true), tostring(err))
      end
    end
  end)
end)
