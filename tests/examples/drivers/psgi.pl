# The middleware for PSGI, called as a server calls it.
use strict;
use warnings;

my ($folder, $name, $closed, $port) = @ARGV;
require "$folder/Limit.pm";
my $hello = sub { [200, ['Content-Type' => 'text/plain'], ['hello']] };
my $app   = Limit::wrap($hello, $name, closed => $closed, server => "127.0.0.1:$port");
$| = 1;
binmode(STDIN, ':encoding(UTF-8)');    # keys are characters here, as a framework has them
while (my $line = <STDIN>) {
    chomp $line;
    my $answer = eval { $app->({ REMOTE_ADDR => $line }) };
    $answer //= [500, [], [$@ =~ s/,.*//sr]];
    my ($status, $headers, $body) = @$answer;
    my %fields = @$headers;
    print join('|', $status, '', $fields{'Retry-After'} // '', $body->[0] =~ s/\n//r), "\n";
}
