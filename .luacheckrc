std = 'luajit'
max_line_length = 100
files['tests/**/*_spec.lua'] = { std = '+busted' }
ignore = { '581', '582' } -- not (x < y) is not x >= y where nan may come
