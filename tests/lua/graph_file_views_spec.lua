-- SPDX-License-Identifier: MIT
-- Files of graphs whose views were edited: refused where they are read, or where they are run.
local ridge = require 'ridge'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

local function edited(g, from, to)
  local text, n = g:json():gsub(from, to)
  assert.equal(1, n, g:json())
  return text
end

describe('a view in a file', function()
  it('makes the shape that its arguments say', function()
    local x = ridge.ones(2, 6)
    local g = ridge.graph(function(a)
      return a:narrow(2, 2, 3):exp(), a:t():reshape(3, 4) * 2
    end, x)
    assert.is_true(ridge.graph.parse(g:json()):same(g))
    local function refused(from, to, part)
      local e = failure(ridge.graph.parse, edited(g, from, to))
      assert.truthy(e.message:find(part, 1, true), e.message)
      assert.falsy(e.message:find('\n', 1, true))
    end
    refused('"length":%s*3', '"length": 9', 'outside axis 2')
    refused('"start":%s*1', '"start": 9223372036854775807', 'outside axis 2')
    refused('"length":%s*3', '"length": 2', 'its record says f32[2,2]')
    refused('"op":%s*"transpose"(.-)"a":%s*%d+', '"op": "transpose"%1"a": 7', 'there is no axis')
  end)

  it('stays in the memory that it is a window into', function()
    local x = ridge.ones(3):requires_grad_()
    local g = ridge.graph(function(a) (a * 2):sum():backward() return a.grad end, x)
    local text = g:json()
    assert.truthy(text:find 'as_strided')
    local from = '"op":%s*"as_strided"(.-)"offset":%s*0'
    local _, n = text:gsub(from, '')
    assert.truthy(n >= 1)
    local far = ridge.graph.parse((text:gsub(from, '"op": "as_strided"%1"offset": 1000', 1)))
    local e = failure(far.plan, far)
    assert.equal('EARG', e.code)
    assert.truthy(e.message:find('reaches out of the memory', 1, true), e.message)
    e = failure(ridge.graph.parse,
      (text:gsub('("op":%s*"as_strided".-"shape":%s*)%[%s*%]', '%1[0, -3]', 1)))
    assert.truthy(e.message:find('is no shape', 1, true) or e.message:find('strides', 1, true),
      e.message)
  end)
end)
