# The middleware for Rack, called as a server calls it.
folder, name, closed = ARGV
require "#{folder}/rack"

hello = ->(_) { [200, { 'content-type' => 'text/plain' }, ['hello']] }
app = Limit.new(hello, name, closed: closed == '1')
$stdout.sync = true
$stdin.each_line do |line|
  begin
    status, headers, body = app.call('REMOTE_ADDR' => line.strip)
  rescue RuntimeError => e
    status, headers, body = 500, {}, [e.message]
  end
  puts [status, headers['ratelimit'], headers['retry-after'], body.join.strip].join('|')
end
