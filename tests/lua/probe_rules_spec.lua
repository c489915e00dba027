-- SPDX-License-Identifier: MIT
--- From how many products on a fit is judged, and when it is taken: with products whose times the
--- test says.

local ridge = require 'ridge'
local backend = require 'ridge.backend'
local choices = require 'ridge.choices'
local fitted = require 'ridge.fitted'
local probe = require 'ridge.probe'
local C = require 'ridge.ffi.lib'

describe('a probe', function()
  local old

  local function replace(module, name, value)
    old[#old + 1] = { module, name, module[name] }
    module[name] = value
  end

  before_each(function() old = {} end)
  after_each(function()
    for k = #old, 1, -1 do old[k][1][old[k][2]] = old[k][3] end
  end)

  -- n products, of which 'built' takes so long, and 'other' so long; a fit always says 'other'.
  local function run(n, built, other)
    local left, taken = n, 0
    -- the products are not computed
    local none = setmetatable({}, { __index = function() return function(x) return x end end })
    replace(ridge, 'randn', function() return none end)
    replace(ridge.nn, 'Linear', function() return none end)
    replace(backend, 'set_threads', function() end)
    replace(choices, 'decides', function() return true end)
    replace(choices, 'why', function()
      left = left - 1
      return { left >= 0 and { threads = C.rg_threads() } or nil }
    end)
    replace(choices, 'measured', function()
      return { { standard = 'built', at = n - left, compute = 'f32', kept = true, threads = 1,
        isa = 'x', paths = { built = { ns = built }, other = { ns = other } } } }
    end)
    replace(fitted, 'kind', function() return 'a kind' end)
    replace(fitted, 'fit', function(rows) return { rows = #rows } end)
    replace(fitted, 'path', function() return 'other' end)
    replace(fitted, 'note', function() end)
    replace(fitted, 'put', function() taken = taken + 1 end)
    local found = probe.probe { shapes = 16 }
    assert.equal(1, #found)
    return found[1], taken
  end

  it('judges a fit from eight products on', function()
    for _, n in ipairs { 1, 7, 8, 9 } do
      local found, taken = run(n, 200, 100)
      assert.equal(n, found.products)
      assert.equal(n, found.at)
      assert.equal(n < 8 and 'too few products' or nil, found.reason)
      assert.equal(n < 8 and 0 or 1, taken)
      assert.near(2, found.standard.mean, 1e-12)
    end
  end)

  it('takes one that chooses better, and no other', function()
    for _, case in ipairs { { 200, 100, true }, { 100, 100, false }, { 100, 101, false } } do
      local found, taken = run(16, case[1], case[2])
      assert.equal(case[3] or nil, found.taken)
      assert.equal(case[3] and 1 or 0, taken)
      assert.equal(not case[3] and 'no better than what is built in' or nil, found.reason)
      assert.same(case[3] and { rows = 16 } or nil, found.costs)
    end
  end)
end)
