-- SPDX-License-Identifier: MIT
--- Whatever is called with whatever gets a result or an error with a sentence, at the line that
--- called; the process lives on, and what comes back can be read. The calls are drawn at random,
--- the same ones for the same seed: RIDGE_SEED=n are others, RIDGE_CALLS=n more. They are made in a
--- process of their own (calls/child.lua), which a crash or a hang ends, and which says where.

local ridge = require 'ridge'
local folders = dofile 'tests/lua/store/folder.lua'

local setting = dofile('tests/op/due.lua').setting
local SEED = setting('RIDGE_SEED', 12345, 0)
local CALLS = setting('RIDGE_CALLS', 20000)
local EPISODE = 50 -- calls
local PROCESS = 400 -- episodes of one process: what is never given back cannot pile up

local root = io.popen('pwd'):read '*l'
-- a sanitizer maps terabytes
local limit = os.getenv 'ASAN_OPTIONS' and '' or 'ulimit -v 16000000; '

local function text_of(path)
  local file = io.open(path, 'rb')
  local text = file and file:read '*a' or ''
  if file then file:close() end
  return text
end

--- Episodes from first to last in one process, which may end early: the one it ended in, if so, and
--- what it printed to standard error.
local function run(folder, first, last, reached)
  local text, status = folders.run(("cd %s && %sHOME=%s '%s/ridge' '%s/tests/lua/calls/child.lua' "
    .. '%d %d %d </dev/null 2>err.txt'):format(folder, limit, folder, root, root, SEED, first,
    last))
  local faults = {}
  for fault in text:gmatch 'FAULT ([^\n]*\n[^\n]*)' do faults[#faults + 1] = fault end
  for name in text:gmatch 'REACHED ([^\n]*)' do reached[name] = true end
  if status == 0 and not text:find 'DONE %d+ calls' then faults[1] = 'it did nothing: ' .. text end
  if status == 0 then return nil, faults end
  local now = text_of(folder .. '/last')
  local episode = tonumber(now:match 'episode (%d+)\n$')
  -- 3 and 130: it took seconds, and was stopped as by Ctrl-C
  if status ~= 3 and status ~= 130 or not episode then
    faults[#faults + 1] = ('it ended with %d in %s\n%s'):format(status, now:match '^(.-) *\n',
      text_of(folder .. '/err.txt'):sub(-3000))
  end
  return episode or last, faults
end

-- What calls that fit of some names print, where each that succeeds is told.
local function again(names)
  local folder, list = folders.new(), {}
  for i, name in ipairs(names) do list[i] = "'" .. name .. "'" end
  local calls = root .. '/tests/lua/calls/'
  local text = folders.run(("cd %s && '%s/ridge' '%smeasured.lua' fit.db && HOME=%s '%s/ridge' "
    .. "'%schild.lua' %d 1 0 %s"):format(folder, root, calls, folder, root, calls, SEED,
    table.concat(list, ' ')))
  folders.remove(folder)
  return text
end

-- A run of an hour says how far it is and what it found, so that one that is stopped was worth it.
local function say(...)
  if CALLS > 20000 then io.stderr:write((...):format(select(2, ...))) end
end

describe('random calls', function()
  it('end in a result or a sentence', function()
    local folder = folders.new()
    local faults, told, reached, stopped, episode = {}, {}, {}, 0, 1
    local said, status = folders.run(("cd %s && '%s/ridge' '%s/tests/lua/calls/measured.lua' "
      .. 'fit.db'):format(folder, root, root))
    assert.equal(0, status, said)
    local known = folders.run(("cd %s && '%s/ridge' '%s/tests/lua/calls/child.lua' 1 0 0")
      :format(folder, root, root))
    local last = math.ceil(CALLS / EPISODE)
    while episode <= last do
      local there = math.min(last, episode + PROCESS - 1)
      local ended, found = run(folder, episode, there, reached)
      for _, fault in ipairs(found) do
        local key = fault:match '^[^%[]*'
        if not told[key] then
          faults[#faults + 1] = fault
          say('fault: %s\n', fault)
        end
        told[key] = true
      end
      if ended then stopped = stopped + 1 end
      episode = (ended or there) + 1
      say('# %d of %d episodes, %d faults\n', episode - 1, last, #faults)
    end
    folders.remove(folder)
    print(('# seed %d: %d episodes of %d calls, %d of them stopped within'):format(SEED, last,
      EPISODE, stopped))
    assert.equal('', table.concat(faults, '\n'))
    assert.is_true(stopped < last / 4, 'most calls are short')
    if CALLS < 20000 then return end
    -- what never succeeds is tried in vain: nothing behind its first checks is
    local missing, names = {}, 0
    for name in known:gmatch 'KNOWN ([^\n]*)' do
      names = names + 1
      if not reached[name] and not known:find('NEVER ' .. name .. '\n', 1, true) then
        missing[#missing + 1] = name
      end
    end
    assert.is_true(names > 300, names)
    assert.is_true(#missing < 0.05 * names, table.concat(missing, ' ')) -- the rest is chance
    if #missing == 0 then return end
    local tried = again(missing)
    for _, name in ipairs(missing) do
      assert.truthy(tried:find('REACHED ' .. name .. '\n', 1, true), name .. ' never succeeds')
    end
  end)
end)

describe('calls of stored sweeps that fit', function()
  it('succeed also where a busy machine disturbed every point that was timed', function()
    local folder = folders.new()
    local calls = root .. '/tests/lua/calls/'
    local text, status = folders.run(("cd %s && '%s/ridge' '%smeasured.lua' fit.db && "
      .. "'%s/ridge' --quiet '%sdisturbed.lua'"):format(folder, root, calls, root, calls))
    folders.remove(folder)
    assert.equal(0, status, text)
    local failed = {}
    for line in text:gmatch 'FAILS ([^\n]*)' do failed[#failed + 1] = line end
    assert.same({}, failed)
    assert.is_true(tonumber(text:match 'DONE (%d+)') >= 20, text)
  end)
end)

describe('hostile input', function()
  it('names what was released', function()
    local x = ridge.ones(2, 3)
    x:release()
    x:release()
    for name, f in pairs { add = function() return x + x end, sub = function() return 1 - x end,
      relu = function() return x:relu() end, add_ = function() return ridge.ones(1):add_(x) end,
      shape = function() return x.shape end,
      ['nn.Linear'] = function() return ridge.nn.Linear(3, 2)(x) end } do
      local ok, e = pcall(f)
      assert.is_false(ok)
      assert.equal('ERELEASED', e.code)
      assert.equal(name .. ': the tensor f32[2,3] was released', (e.message:match '^[^\n]*'))
    end
  end)

  it('never finds what a layer does inside', function()
    local layer = ridge.nn.Linear(3, 2)
    assert.is_nil(layer.adopt)
    assert.is_false((pcall(ridge.ones(1).release, io.stderr)))
  end)

  it('leaves everything working', function()
    assert.equal(6, ridge.ones(2, 3):sum():item())
    assert.is_true(ridge.capture(function() return ridge.ones(2) + 1 end)() ~= nil)
  end)
end)
