-- SPDX-License-Identifier: MIT
-- Nothing that is typed ends the program: random bytes, words of Lua and of ridge in random order,
-- good lines with something changed, random keys. RIDGE_SEED=n is another order, RIDGE_SOAK=n does
-- it n times as long.
local program = require 'tests.lua.repl.program'

local setting = dofile('tests/op/due.lua').setting
local state = setting('RIDGE_SEED', 20261121, 0)
local LONG = setting('RIDGE_SOAK', 1)

local function pick(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return math.floor(state / 65536) % n + 1
end

-- No word with which a text could run for ever, or write where it should not.
local WORDS = {
  'ridge', 'x', 'y', 'f', '.', ':', '(', ')', '{', '}', '[', ']', ',', ';', '=', '==', '..',
  '...', '+', '-', '*', '/', '^', '%', '#', '<', '~=', '"', "'", '[[', ']]', '--', '--[[', '?',
  '??', '%time', '%bench --quick', '%prof', '%who', '%mem', '%sql', '%tb', '%set', '%debug',
  '%seed', '%history', '%trace', '%run', '%nothing', 'function', 'end', 'do', 'then', 'if',
  'else', 'return', 'local', 'not', 'and', 'or', 'nil', 'true', 'in', 'for', 'break', '1', '2',
  '3', '0', '-1', '1e308', '0/0', '0x', '5LL', '2i', 'ones', 'zeros', 'randn', 'tensor', 'nn',
  'Linear', 'capture', 'scope', 'shape', 'sum', 'release', 'item', 'matmul', 'dtype', "'f32'",
  "'bf16'", "'f8e5m2'", '_', '_1', 'str', 'summary', 'pcall', 'error', 'setmetatable', 'tostring',
  'string.rep', 'table.concat', 'coroutine.wrap', '\\', '\0', '\255', '\226\130', '\t', 'ö',
}

local GOOD = { 'x = ridge.randn(2, 3)', 'x:softmax():sum(-1)', 'y = x:matmul(x:t())', '%time x + x',
  'net = ridge.nn.Sequential(ridge.nn.Linear(3, 8), ridge.nn.ReLU())', 'net(x)', 'str(net)',
  'plan = ridge.capture(function() return net(x) end)', 'plan()', 'summary(x)', '?ridge.randn',
  '??ridge.randn', 'for i = 1, 3 do x:add_(i) end', 'local a, b = 1, {2, {3}}', 'x[{1, {2, 3}}]',
  'x[1] = x[2]', '%who', 'x:release()', '_:size(1)', '"a" .. [[b]] .. tostring(x)' }

local function bytes()
  local list = {}
  for i = 1, pick(60) do list[i] = string.char(pick(256) - 1) end
  return table.concat(list)
end

local function soup()
  local list = {}
  for i = 1, pick(14) do list[i] = WORDS[pick(#WORDS)] end
  return table.concat(list, pick(3) == 1 and '' or ' ')
end

local function changed()
  local text = GOOD[pick(#GOOD)]
  for _ = 1, pick(3) do
    local at = pick(#text + 1)
    local how = pick(3)
    if how == 1 then
      text = text:sub(1, at - 1) .. text:sub(at + pick(4))
    elseif how == 2 then
      text = text:sub(1, at - 1) .. WORDS[pick(#WORDS)] .. text:sub(at)
    else
      text = text:sub(1, at) .. text:sub(pick(#text + 1))
    end
  end
  return text
end

local MAKERS = { bytes, soup, changed, changed, function() return GOOD[pick(#GOOD)] end }

--- A text that is neither for the shell, nor opens an editor, nor writes a file.
local function text()
  local made = MAKERS[pick(#MAKERS)]()
  return (made:gsub('!', '?'):gsub('%%%s*edit', '%%tb'):gsub('%%%s*save', '%%tb'))
end

describe('the program survives', function()
  it('any lines on its standard input', function()
    for _ = 1, LONG do
      local lines = {}
      for i = 1, 300 do lines[i] = text() end
      -- whatever is open is closed, then the session still counts
      local status, out, err = program.run({}, { input = table.concat(lines, '\n')
        .. '\n]]]]]==]\n"\n\'\n)\n)\nreturn )\nend\n)\nprint("still " .. "here")\n' })
      assert.is_true(status <= 1, ('status %d\n%s'):format(status, err))
      assert.truthy(out:find('still here', 1, true), out:sub(-600) .. err:sub(-600))
    end
  end)

  it('any code behind -e', function()
    for _ = 1, 40 * LONG do
      local code = text():gsub('%z', ' ') -- a command line has no zero bytes
      local status, _, err = program.run { '-e', code }
      assert.is_true(status <= 1, ('status %d of %q\n%s'):format(status, code, err))
    end
  end)

  it('any recipe', function()
    local folder = program.folder()
    local path = folder .. '/r.lua'
    for _ = 1, 20 * LONG do
      local source = text() .. '\n' .. text()
      local file = assert(io.open(path, 'wb'))
      file:write(source)
      file:close()
      local status, _, err = program.run { path }
      assert.is_true(status <= 1, ('status %d of %q\n%s'):format(status, source, err))
    end
    program.remove(folder)
  end)

  -- Not among the keys: Ctrl-D, Ctrl-Z, Ctrl-\ and Ctrl-S, which end and stop on purpose.
  local LEFT_OUT = { [4] = true, [26] = true, [28] = true, [19] = true }
  local KEYS = { '\27[A', '\27[B', '\27[C', '\27[D', '\27[3~', '\27[H', '\27[F', '\27[1;5C', '\9',
    '\9\9', '\18', '\127', '\1', '\5', '\11', '\21', '\23', '\25', '\12', '\27b', '\27f', '\27d',
    '\27[200~', '\27[201~', '\27', '\3', '\r' }

  it('any keys', function()
    local home = program.folder()
    local term = program.prompt(home)
    term:expect '>> '
    for round = 1, 15 * LONG do
      local keys = {}
      for i = 1, pick(40) do
        local byte = string.char(pick(256) - 1)
        keys[i] = pick(2) == 1 and KEYS[pick(#KEYS)] or LEFT_OUT[byte:byte()] and 'x' or byte
      end
      local typed = (table.concat(keys):gsub('!', '?'))
      term:send(typed)
      -- out of whatever was begun: a search, a text of several lines, a loop, a quoted key
      term:send '\r\3\3'
      os.execute 'sleep 0.05'
      term:insist(('\3\21print("round " .. %d + 0 .. " done")\r'):format(round),
        ('round %d done\n'):format(round))
    end
    local status = term:leave()
    program.remove(home)
    assert.equal(0, status, ('status %d; its end:\n%s')
      :format(status, term.output:sub(-2000)))
  end)
end)
