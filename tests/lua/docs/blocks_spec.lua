-- SPDX-License-Identifier: MIT
-- Blocks of pages: what is found, and what is found wrong with them.

local blocks = dofile 'tests/lua/docs/blocks.lua'

local ROOT = io.popen('pwd'):read '*l'

local PAGE = [[
# A page

```console
$ echo one; echo two 22 \
> three
one
two ‹11› three
$ cd /tmp/.. && false || true
```

```lua
-- a.lua: a file
print(21 * 2)
```

```console status=3
$ pwd
/
$ sh -c 'echo no >&2; exit 3'
no
```

```console elsewhere
$ exit 9
```
]]

local PROMPT = [[
```lua
>> for i = 1, 2 do
..   print(i)
.. end
...
2
>> ridge.ones(2):sum():item()
2
>> x:sum()
error: ‹undeclared› variable 'x'
```
]]

describe('blocks of a page', function()
  local folder
  before_each(function() folder = blocks.folder.new() end)
  after_each(function() blocks.folder.remove(folder) end)

  -- What is wrong with a page that was run.
  local function wrong(text)
    local account = blocks.account(folder .. '/' .. tostring(math.random(2 ^ 30)),
      ROOT .. '/build/ridge')
    local list = blocks.read(text)
    blocks.run(account, list)
    return blocks.all_wrong(list), list
  end

  it('are commands in one shell, files, and what is not for here', function()
    local list, found = wrong(PAGE)
    assert.same({}, list)
    local kinds = {}
    for i, block in ipairs(found) do kinds[i] = block.kind end
    assert.same({ 'console', 'file', 'console', 'elsewhere' }, kinds)
    assert.equal('a.lua', found[2].name)
  end)

  it('are lines of one prompt', function()
    assert.same({}, (wrong(PROMPT)))
    assert.same({}, (wrong('```lua\n>> a = 5\n```\n\n```console\n$ true\n```\n\n' ..
      '```lua\n>> a + 1\n6\n```\n')))
  end)

  it('show what may be anything, also nothing, and only that', function()
    local function shown(printed)
      return wrong("```console\n$ echo '" .. printed .. "'\n‹!› others ‹7› ‹of› 2\n```\n")
    end
    for _, text in ipairs { '! others 7 of 2', '  others 9 from 2', '  others 2' } do
      assert.same({}, (shown(text)))
    end
    for _, text in ipairs { '! other 7 of 2', '! others 7 of 3', 'others' } do
      assert.equal(1, #shown(text), text)
    end
  end)

  it('that print something else, or end otherwise, are named with their line', function()
    for _, each in ipairs {
      { 'one\ntwo', 'eno\ntwo', 'line 4:' }, { 'one\ntwo', 'two', 'line 4:' },
      { ' three\n', ' three\nmore\n', 'line 4:' }, { 'status=3', 'status=2', 'status 3' },
      { '$ pwd\n/\n', '$ pwd\n', 'line 17:' }, { '&& false || true', '&& false', 'status 1' },
      { 'echo one;', 'ecoh one;', 'ecoh' }, { "'echo no", "'ehco no", 'line 19:' },
    } do
      local text, n = PAGE:gsub(each[1]:gsub('%p', '%%%0'), (each[2]:gsub('%%', '%%%%')), 1)
      assert.equal(1, n)
      local list = wrong(text)
      assert.is_true(#list > 0, each[2])
      assert.truthy(table.concat(list, '\n'):find(each[3], 1, true), each[2] .. '\n' .. list[1])
    end
    for _, each in ipairs { { '2):sum', '3):sum' }, { 'print(i)', 'print(i))' },
        { 'error: ', 'mistake: ' } } do
      local text = PROMPT:gsub(each[1]:gsub('%p', '%%%0'), each[2], 1)
      assert.is_true(#wrong(text) > 0, each[2])
    end
  end)

  it('that nobody can run are refused', function()
    for _, text in ipairs { '```lua\nprint(1)\n```\n', '```python\nx\n```\n', '```\nx\n```\n',
        '```console\nx\n```\n' } do
      assert.has_error(function() blocks.read(text) end)
    end
  end)
end)
