-- SPDX-License-Identifier: MIT
local history = require 'ridge.repl.history'

describe('the history', function()
  local path
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  it('keeps entries of several lines as one, backslashes too', function()
    history.append(path, 'a = 1')
    history.append(path, 'for i = 1, 2 do\n  print "\\n"\nend')
    assert.same({ 'a = 1', 'for i = 1, 2 do\n  print "\\n"\nend' }, history.read(path))
  end)

  it('leaves out what begins with a blank', function()
    assert.is_false(history.append(path, ' secret'))
    assert.same({}, history.read(path))
  end)

  it('is cut when it has grown too long, keeping the newest', function()
    local file = io.open(path, 'w')
    for i = 1, 7600 do file:write(i, '\n') end
    file:close()
    local list = history.read(path)
    assert.equal(5000, #list)
    assert.equal('7600', list[5000])
    assert.equal(5000, #history.read(path))
  end)

  it('leaves no file open', function()
    local open, opened = io.open, {}
    io.open = function(...) -- luacheck: ignore 122
      local file, why = open(...)
      opened[#opened + 1] = file
      return file, why
    end
    history.read(path)
    io.open = open -- luacheck: ignore 122
    assert.equal('closed file', io.type(opened[1]))
  end)

  it('is empty where there is no file', function()
    assert.same({}, history.read(path .. '.none'))
    assert.same({}, history.read(nil))
  end)
end)
