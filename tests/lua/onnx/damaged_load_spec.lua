-- SPDX-License-Identifier: MIT
-- ONNX files whose bytes were changed, loaded and called as far as they go: what comes of it is a
-- result or one sentence of ridge's own, in bounded memory.  RIDGE_SOAK=N tries N times as many.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local draw = require 'ridge.onnx.draw'
local folders = require 'tests.lua.store.folder'

local FOLDER = 'tests/fixtures/onnx/ops/'
local SOAK = tonumber(os.getenv 'RIDGE_SOAK') or 1
local SEED = tonumber(os.getenv 'RIDGE_SEED') or 1
local MOST = 2 ^ 28 -- bytes that the tensors of one file may take

local function texts()
  local list, pipe = {}, assert(io.popen('ls -1 ' .. FOLDER .. '*.onnx'))
  for path in pipe:lines() do list[#list + 1] = folders.get(path) end
  pipe:close()
  return list
end

-- A byte changed, a part left out, doubled, or put into another place.
local function damage(text)
  local at = math.random(#text)
  local kind, n = math.random(6), math.random(12)
  if kind <= 3 then
    local byte = kind == 1 and math.random(0, 255)
      or bit.bxor(text:byte(at), bit.lshift(1, math.random(0, 7)))
    return text:sub(1, at - 1) .. string.char(byte) .. text:sub(at + 1)
  end
  local part = text:sub(at, at + n - 1)
  if kind == 4 then return text:sub(1, at - 1) .. text:sub(at + n) end
  if kind == 5 then return text:sub(1, at + n - 1) .. text:sub(at) end
  local to = math.random(#text)
  return text:sub(1, to - 1) .. part .. text:sub(to + n)
end

-- What is wrong with an error: raised by Lua itself, or no sentence.
local function fault(err)
  if not blame.is_error(err) then return 'raw: ' .. tostring(err) end
  if err.cause then return 'hides ' .. tostring(err.cause) end
  local first = tostring(err.message):match '^[^\n]*'
  if first == '' or first:find '%c' then return 'no sentence: ' .. tostring(err.message) end
end

-- Load and call.  Returns how far it came.
local function try(path)
  local ok, m = pcall(ridge.onnx.load, path)
  if not ok then return 'refused', fault(m) end
  local drawn, inputs = pcall(draw.inputs, m, {}, 1)
  if not drawn then return 'loaded', fault(inputs) end
  local called, err = pcall(m, unpack(inputs))
  if not called then return 'loaded', fault(err) end
  return 'called'
end

describe('a damaged ONNX file that is loaded and called', function()
  local folder, path

  setup(function()
    folder = folders.in_memory()
    path = folder .. '/model.onnx'
    ridge.memory.set_limit(ridge.memory.stats().live + MOST)
  end)

  teardown(function()
    ridge.memory.set_limit(0)
    os.execute("rm -rf '" .. folder .. "'")
  end)

  it('ends in a result or a sentence', function()
    local list, came, faults = texts(), { refused = 0, loaded = 0, called = 0 }, {}
    math.randomseed(SEED)
    for n = 1, 400 * SOAK do
      local text = list[math.random(#list)]
      for _ = 1, math.random(3) do text = damage(text) end
      folders.put(path, text)
      if ridge.memory.stats().cached > MOST then ridge.memory.trim() end
      local far, wrong = try(path)
      came[far] = came[far] + 1
      if wrong and not faults[wrong] then
        faults[wrong] = true
        faults[#faults + 1] = ('seed %d, damage %d, %s: %s'):format(SEED, n, far, wrong)
      end
    end
    assert.equal('', table.concat(faults, '\n'))
    assert.is_true(came.refused > 0 and came.called > 0)
  end)
end)
