-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'
local memory = require 'ridge.memory'

local function tensors()
  collectgarbage()
  collectgarbage()
  return memory.stats().tensors
end

describe('a handle', function()
  it('that dies is released by the next full collection', function()
    local before = tensors()
    local kept = {}
    for i = 1, 5000 do kept[i] = ridge.ones(2) end
    assert.equal(before + 5000, memory.stats().tensors)
    for i = 1, 5000, 2 do kept[i] = nil end
    collectgarbage()
    assert.equal(before + 2500, memory.stats().tensors)
    for i = 2, 5000, 2 do assert.equal(2, kept[i]:sum():item()) end
    kept = nil -- luacheck: ignore 311
    assert.equal(before, tensors())
  end)

  it('is released once, whether early or late', function()
    local before = tensors()
    local function twice()
      local x = ridge.ones(3)
      local y = x:reshape(3)
      x:release()
      x:release()
      assert.equal(3, y:sum():item())
    end
    twice()
    for _ = 1, 100 do ridge.ones(1):release() end
    assert.equal(before, tensors())
  end)

  for _, mode in ipairs { 'on', 'off' } do
    it('lives exactly as long as it is known, whenever the collector comes (jit ' .. mode .. ')',
      function()
        local pipe = assert(io.popen('./ridge tests/lua/handle_child.lua ' .. mode .. ' 2>&1'))
        local text = pipe:read('*a')
        assert.is_truthy(pipe:close(), text)
        local n, in_c, handles = text:match('^(%d+)\t(%d+)\t(%d+)\n$')
        assert.is_truthy(n, text)
        assert.same({ n, n }, { in_c, handles })
      end)
  end

  for _, kind in ipairs { 'plain', 'with ffi', 'busted' } do
    it(('belongs to the ridge that made it, of two in a state (%s)'):format(kind), function()
      local pipe = assert(io.popen(("luajit tests/lua/forgotten_child.lua '%s' 2>&1"):format(kind)))
      local text = pipe:read('*a')
      pipe:close()
      local add = 'add: a tensor or a number is expected, got '
      local release = 'release: a tensor is expected, got '
      local other = 'the tensor f32[] of another loading of ridge\n'
      assert.equal(add .. other .. add .. other .. release .. other .. release .. other .. '100\n',
        text)
    end)
  end

  it('has the fields that the core reads', function()
    local ffi = require 'ffi'
    local here = ffi.typeof(ridge.ones(1))
    assert.equal(ffi.sizeof 'rg_ref', ffi.sizeof(here))
    for _, field in ipairs { '_t', '_slot' } do
      assert.equal(ffi.offsetof('rg_ref', field), ffi.offsetof(here, field))
    end
  end)

  it("is whole in the finalizer of what held it", function()
    local before = tensors()
    local sum
    local function make()
      local held = ridge.ones(4)
      local last = newproxy(true) -- held until it has its finalizer
      getmetatable(last).__gc = function() sum = held:sum():item() end
    end
    make()
    assert.equal(before, tensors())
    assert.equal(4, sum)
  end)

  it('whose finalizer raises ends a capture, as any error does', function()
    local function raises() error 'of a finalizer' end
    local function f()
      local last = newproxy(true)
      getmetatable(last).__gc = raises
      return ridge.ones(2) + 1
    end
    local ok, why = pcall(ridge.capture, f)
    assert.is_false(ok)
    assert.matches('of a finalizer', why)
    local x = ridge.ones(2)
    local plan = ridge.capture(function() return x + 1 end)
    assert.equal(2, plan():tolist()[1])
  end)

  -- A function's frame leaves a slot between a pending call and its first argument unwritten, so
  -- that what lay there before is held.  The collector runs its finalizers at the stack's top, here
  -- at each of so many depths, and then where such slots are.
  it('is released whatever the stack held before', function()
    local function identity(...) return ... end
    local function dropped()
      local before = memory.stats().tensors
      for _ = 1, 3 do ridge.ones(2) end
      for _ = 1, 2 do collectgarbage() end
      ridge.ones(2):release() -- what died is released when the next one is made
      return memory.stats().tensors - before
    end
    local function pending()
      return identity(identity(1, identity(2, identity(3, identity(4, dropped())))))
    end
    local function deep(...)
      collectgarbage()
      return select('#', ...)
    end
    local pad, kept = {}, {}
    for n = 0, 60 do
      tensors()
      deep(unpack(pad, 1, n))
      local _, _, _, _, left = pending()
      if left ~= 0 then kept[#kept + 1] = n end
    end
    assert.same({}, kept)
  end)

  it('ends with its Lua state, before what was made before ridge and after what was made later',
    function()
      local pipe = assert(io.popen([[luajit -e '
        package.cpath = "build/?.so"
        kept = {}
        local function told(name)
          kept[name] = newproxy(true)
          getmetatable(kept[name]).__gc = function()
            print(name, select(2, pcall(function() return kept[1]:sum():item() end)))
          end
        end
        told "made before:"
        local ridge = require "ridge"
        for i = 1, 100 do kept[i] = ridge.ones(2) end
        told "made later:"' 2>&1]]))
      local text = pipe:read('*a')
      assert.is_truthy(pipe:close())
      local later, before = text:match('^made later:\t2(\n)made before:\t([^\n]*)\n$')
      assert.is_truthy(later, text)
      assert.is_truthy(before:find 'tensor was released', text)
    end)

  it('can be made by a finalizer that runs after the Lua state released its libraries', function()
    local pipe = assert(io.popen([[luajit -e '
      package.cpath = "build/?.so"
      local ridge
      last = newproxy(true)
      getmetatable(last).__gc = function()
        print(pcall(function() return ridge.ones(3):sum():item() end))
      end
      ridge = require "ridge"
      ridge.ones(3):sum():item() -- what was never called is found no more' 2>&1]]))
    local text = pipe:read('*a')
    assert.is_truthy(pipe:close(), text)
    assert.equal('true\t3\n', text)
  end)
end)
